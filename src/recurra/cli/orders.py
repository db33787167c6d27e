from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson, RunArgument, open_run


def orders(
    run: RunArgument,
    most: Annotated[int, typer.Option(min=0, max=12, help="The highest order.")] = 6,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Tables of order 0, 1, 2 … beside the network: number of parameters, nats and perplexity."""
    show(open_run(run).orders(most), plot, as_json)
