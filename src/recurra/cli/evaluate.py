from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        str | None, typer.Option(help="Another text; otherwise the run's own test part (or validation).")
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Also fit the best order-k Markov model on the training part.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Negative log-likelihood, perplexity and bits per symbol, with the best Markov model beside it."""
    import math

    import torch

    from recurra.recipes.language import Corpus, make_stream, open_run, read_corpus
    from recurra.training.evaluation import evaluate as score

    _, recipe, tokeniser, model = open_run(run)
    corpus = read_corpus(recipe.data, recipe.seed, tokeniser)
    part, name = (corpus.test, "test") if any(len(each) > 1 for each in corpus.test) else (corpus.valid, "validation")
    if data is not None:
        other: Corpus = read_corpus(replace(recipe.data, path=data), recipe.seed, tokeniser)
        part, name = [*other.train, *other.valid, *other.test], data
    made = score(model, make_stream(recipe, part, training=False))
    rows = {f"{recipe.model.cell}-{recipe.model.hidden_size}": made.nats}
    if baselines:
        rows[f"markov order {corpus.markov.order}"] = corpus.markov.score(
            part if recipe.data.sequences else torch.cat(part)
        )
    if as_json:
        scores = {k: {"nats": v, "perplexity": math.exp(v), "bits": v / math.log(2)} for k, v in rows.items()}
        print_json({"run": str(run), "data": name, "tokens": made.tokens, "scores": scores})
        return
    table = [[k, f"{v:.4f}", f"{math.exp(v):.3f}", f"{v / math.log(2):.4f}"] for k, v in rows.items()]
    print_table(f"{name}: {made.tokens:,} symbols", ["model", "nats", "perplexity", "bits"], table)
