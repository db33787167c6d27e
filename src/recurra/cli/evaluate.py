from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="Another text, or another file with two columns; otherwise the run's own test part (or validation)."
        ),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Also the best order-k Markov model of the training part, or what guessing gives.")
    ] = True,
    window: Annotated[
        int | None, typer.Option(min=1, help="Also train the fixed-window model with this many symbols, and score it.")
    ] = None,
    dynamic: Annotated[
        float | None,
        typer.Option(
            help="Also score the model while it goes on learning from what it has read, at this rate (0.002)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Negative log-likelihood, perplexity and bits per symbol, with the best Markov model beside it; of translations also
    exact match, edit distance and BLEU."""
    from recurra.recipes.base import Question
    from recurra.recipes.catalogue import open_run

    _, experiment, model = open_run(run)
    answer = experiment.judge(model, Question(data, baselines, window, dynamic))
    if as_json:
        print_json({"run": str(run), "data": answer.data, "tokens": answer.steps, "scores": answer.scores})
        return
    columns = list(dict.fromkeys(column for row in answer.scores.values() for column in row))
    rows = [
        [name, *(f"{row[column]:.4f}" if column in row else "" for column in columns)]
        for name, row in answer.scores.items()
    ]
    print_table(f"{answer.data}: {answer.steps:,} {experiment.unit}s", ["model", *columns], rows)
