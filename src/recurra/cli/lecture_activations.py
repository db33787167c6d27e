from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson


def activations(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; all, unless given.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Activation functions and their slopes."""
    from recurra.lecture.activations import activations as compute
    from recurra.lecture.scalar_case import SHOWN

    show(compute(names or SHOWN), plot, as_json)
