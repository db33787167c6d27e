from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson, RunArgument, open_run, print_json


def embeddings(
    run: RunArgument,
    near: Annotated[str | None, typer.Option(help="The neighbours of this token alone.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many neighbours.")] = 8,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Vectors of tokens: nearest neighbours by cosine, and a map."""
    found = open_run(run).embeddings()
    if near is None:
        show(found, plot, as_json)
        return
    close = found.neighbours(near, count)
    if plot is not None:
        found.plot(plot)
    if as_json:
        print_json({"token": near, "neighbours": dict(close)})
        return
    for name, cosine in close:
        print(f"{cosine:.3f}  {name!r}")
