from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, RunArgument, open_run, print_result


def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="onnx or weights.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The folder to write to; RUN/export/FORMAT if left out.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Also with weights in 8 bits, and what that costs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trained model so that other programs can run it: ONNX with explicit state, or weights with their graph. What was
    written is run and compared with the model."""
    print_result(open_run(run).export(to, out, int8=int8), as_json, run=str(run))
