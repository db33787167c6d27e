from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def score(
    run: Annotated[Path, typer.Argument(help="A run folder; of a language model, if a text is given.")],
    text: Annotated[
        str | None, typer.Argument(help="The text to score; without it, only what the model computes.")
    ] = None,
    by_symbol: Annotated[bool, typer.Option("--by-symbol", help="Also each symbol, given those before it.")] = False,
    baselines: Annotated[bool, typer.Option(help="Also the best order-k Markov model of the training text.")] = True,
    as_json: AsJson = False,
) -> None:
    """The probability of a text under a trained model, and the product that it is made of."""
    from recurra.errors import OptionError
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.language import LanguageTask

    _, task, model = open_run(run)
    if text is None:
        if as_json:
            print_json({"run": str(run), "factorisation": task.factorisation})
        else:
            typer.echo(task.factorisation)
        return
    if not isinstance(task, LanguageTask):
        raise OptionError(f"{run} gives no text a probability: {task.factorisation} Use recurra evaluate.")
    found = task.score(model, text, baselines=baselines)
    if as_json:
        print_json(
            {
                "run": str(run),
                "factorisation": task.factorisation,
                "symbols": found.symbols,
                "log_probabilities": {name: logs.tolist() for name, logs in found.logs.items()},
            }
        )
        return
    typer.echo(task.factorisation)
    rows = []
    for name, logs in found.logs.items():
        nats = -float(logs.mean())
        rows.append([name, f"{float(logs.sum()):.4f}", f"{nats:.4f}", f"{math.exp(min(nats, 700)):.4f}"])
    print_table(f"{len(found.symbols)} symbols", ["model", "log P", "nats a symbol", "perplexity"], rows)
    if by_symbol:
        columns = [[f"{math.exp(value):.4f}" for value in logs.tolist()] for logs in found.logs.values()]
        each = [list(row) for row in zip([repr(symbol) for symbol in found.symbols], *columns, strict=True)]
        print_table("P of each symbol, given those before it", ["symbol", *found.logs], each)
