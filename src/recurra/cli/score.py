from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json, print_table


def score(
    run: RunArgument,
    text: Annotated[
        str | None, typer.Argument(help="The text to score; without it, only what the model computes.")
    ] = None,
    by_token: Annotated[
        bool, typer.Option("--by-token", "--by-symbol", help="Also each token, given those before it.")
    ] = False,
    baselines: Annotated[bool, typer.Option(help="Also the best order-k Markov model of the training text.")] = True,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """The probability of a text under a trained model, and the product that it is made of."""
    opened = open_run(run, device)
    facts = {"run": str(run), "factorisation": opened.task.factorisation}
    found = None if text is None else opened.score(text, baselines=baselines)
    if as_json:
        print_json(facts | ({} if found is None else found.to_json()))
        return
    typer.echo(opened.task.factorisation)
    if found is not None:
        print_table(found.table())
        if by_token:
            print_table(found.by_token())
