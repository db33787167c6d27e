from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, show
from recurra.cli.output import AsJson


def depth(
    layers: Annotated[int, typer.Argument(help="How many there are.")] = 20,
    width: Annotated[int, typer.Option(help="Units of each.")] = 32,
    activation: Annotated[str, typer.Option(help="Of a feed-forward network: tanh, relu, sigmoid …")] = "tanh",
    scale: Annotated[float, typer.Option(help="Of the weights from layer to layer.")] = 0.7,
    cell: Annotated[str | None, typer.Option(help="Stack recurrent layers of this cell instead.")] = None,
    steps: Annotated[int, typer.Option(help="Of recurrent layers: steps of a sequence.")] = 10,
    seed: Annotated[int, typer.Option(help="Of weights and inputs.")] = 0,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Gradients over depth: without residual connections, and with their head outside and inside the activation."""
    from recurra.lecture.residuals import gradients_over_depth

    how = {"activation": activation, "scale": scale, "cell": cell, "steps": steps, "seed": seed}
    show(gradients_over_depth(layers, width, **how), plot, as_json)  # type: ignore[arg-type]
