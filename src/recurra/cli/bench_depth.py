from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def depth(
    parameters: Annotated[int, typer.Option(min=1000, help="Of every network, as near as its size allows.")] = 100_000,
    steps: Annotated[int, typer.Option(min=1, help="Updates of each.")] = 1000,
    data: Annotated[str | None, typer.Option(help="A text; otherwise the source of Python's standard library.")] = None,
    seed: Annotated[int, typer.Option(help="Of text, weights and order.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Extra layers before, inside and after the recurrence, at equal numbers of parameters: nats on validation text."""
    from recurra.benchmarks.depth import compare_depth

    found = compare_depth(parameters, steps, data, seed, say=partial(typer.echo, err=True))
    print_json(found.to_json()) if as_json else print(found)
