from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_result


def defaults(
    kinds: Annotated[list[str] | None, typer.Argument(help="Kinds of data; all of the recipe if left out.")] = None,
    recipe: Annotated[str, typer.Option(help="Whose defaults.")] = "classify",
    seed: Annotated[int, typer.Option(help="Of the runs; the data is always the same.")] = 0,
    as_json: AsJson = False,
) -> None:
    """A recipe with nothing but its defaults, on kinds of synthetic data, beside baselines and a specialist, if installed."""
    from recurra.benchmarks.defaults import bench_defaults

    print_result(bench_defaults(recipe, kinds, seed, say=partial(typer.echo, err=True)), as_json)
