from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_result


def defaults(
    kinds: Annotated[list[str] | None, typer.Argument(help="Kinds of data; all of the recipe if left out.")] = None,
    recipe: Annotated[str, typer.Option(help="Whose defaults.")] = "classify",
    seed: Annotated[int, typer.Option(help="Of the runs.")] = 0,
    data_seed: Annotated[
        int, typer.Option(help="Of the data; 0: what defaults were chosen by. text and words have one text.")
    ] = 0,
    draws: Annotated[int, typer.Option(help="Means over so many data seeds.")] = 1,
    as_json: AsJson = False,
) -> None:
    """A recipe with nothing but its defaults, on kinds of synthetic data, beside baselines and a specialist, if installed."""
    from recurra.benchmarks.defaults import bench_defaults

    found = bench_defaults(recipe, kinds, seed, partial(typer.echo, err=True), data_seed, draws)
    print_result(found, as_json)
