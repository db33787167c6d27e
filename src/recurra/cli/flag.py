from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_result


def flag(
    run: RunArgument,
    file: Annotated[str | None, typer.Argument(help="An event log; otherwise the run's own test cases.")] = None,
    below: Annotated[float | None, typer.Option(min=0, max=1, help="Flag events less probable than this.")] = None,
    alarms: Annotated[
        float, typer.Option(min=0, max=1, help="Otherwise: as improbable as this share of validation events.")
    ] = 0.01,
    most: Annotated[int, typer.Option(min=1, help="Print so many, the least probable ones.")] = 50,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Events that should not be where they are: improbable after what came before them in their case."""
    found = open_run(run, device).flag(file, below=below, alarms=alarms)
    print_result(replace(found, shown=most), as_json, run=str(run), data=file)
