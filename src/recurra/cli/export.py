from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, RunArgument, open_run, print_result


def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="onnx, c or weights.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The folder to write to; RUN/export/FORMAT if left out.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Matrices in 8 bits, and what that costs.")] = False,
    name: Annotated[str, typer.Option(help="Of C: what the functions begin with.")] = "model",
    own_math: Annotated[bool, typer.Option("--own-math", help="Of C: without math.h.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trained model so that other programs can run it: ONNX with explicit state, C, or weights with their graph. What was
    written is run and compared with the model."""
    found = open_run(run).export(to, out, int8=int8, name=name, own_math=own_math)
    print_result(found, as_json, run=str(run))
