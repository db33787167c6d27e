from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.lecture import Plot, read_numbers, show
from recurra.cli.output import AsJson


def approximate(
    function: Annotated[str, typer.Argument(help="sine, step, hat; of two variables wave, bump, product.")] = "sine",
    widths: Annotated[str, typer.Option(help="How many ridges, with commas between.")] = "1,2,4,8,16,32,64,128",
    activation: Annotated[str, typer.Option(help="sigmoid, tanh, relu or softplus.")] = "sigmoid",
    steepness: Annotated[float, typer.Option(help="How steep ridges are at most.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Which ridges are drawn.")] = 0,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """A function as a sum of ridge functions: the error over the width."""
    from recurra.lecture.approximation import approximate as compute

    sizes = [int(each) for each in read_numbers("--widths", widths)]
    show(compute(function, sizes, activation=activation, steepness=steepness, seed=seed), plot, as_json)
