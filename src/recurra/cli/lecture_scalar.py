from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.lecture import Plot, read_numbers, show
from recurra.cli.output import AsJson


def scalar(
    x: Annotated[str, typer.Option(help="The inputs, with commas between them.")] = "1" + ",0" * 19,
    target: Annotated[float, typer.Option(help="y at the last step.")] = 1.0,
    v: Annotated[str, typer.Option(help="The recurrent weight; or one for each step's replica.")] = "0.9",
    w: Annotated[str, typer.Option(help="The input weight; or one for each step's replica.")] = "1",
    u: Annotated[float, typer.Option(help="The output weight.")] = 1.0,
    activation: Annotated[str, typer.Option(help="a_s: tanh, sigmoid, relu, softplus or linear.")] = "tanh",
    output: Annotated[str, typer.Option(help="a_o: the same ones.")] = "linear",
    error: Annotated[str, typer.Option(help="e: square or cross-entropy.")] = "square",
    start: Annotated[float, typer.Option(help="h before the first step.")] = 0.0,
    plot: Plot = None,
    page: Annotated[Path | None, typer.Option(help="Write the page with sliders to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """One unit: the gradient of the last error with respect to every replica of the weights, steps back."""
    from recurra.lecture.scalar_case import scalar_case
    from recurra.lecture.scalar_page import scalar_page
    from recurra.runs.disk import replace_file

    vs, ws = read_numbers("--v", v), read_numbers("--w", w)
    how: dict[str, Any] = {"u": u, "activation": activation, "output": output, "error": error, "start": start}
    found = scalar_case(
        read_numbers("--x", x), target, v=vs if len(vs) > 1 else vs[0], w=ws if len(ws) > 1 else ws[0], **how
    )
    if page is not None:
        replace_file(page, scalar_page(x).encode())
    show(found, plot, as_json)
