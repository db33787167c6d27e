from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson


def convolution(
    stride: Annotated[int, typer.Option(min=1, help="How far the filters move each time.")] = 1,
    pool: Annotated[str, typer.Option(help="max, average or none.")] = "max",
    pool_size: Annotated[int, typer.Option(min=1, help="Over squares of this side.")] = 2,
    bias: Annotated[float, typer.Option(help="Added to every sum.")] = 0.0,
    plot: Plot = None,
    film: Annotated[Path | None, typer.Option(help="The filters on their way, as an animated FILE.gif.")] = None,
    as_json: AsJson = False,
) -> None:
    """Filters that pass over an image of two channels, the map of their sums, and what is pooled."""
    from recurra.lecture.convolution import convolve

    found = convolve(stride=stride, pool=pool, pool_size=pool_size, bias=bias)
    if film is not None:
        found.animate(film)
    show(found, plot, as_json)
