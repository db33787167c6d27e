from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json


def forecast(
    run: RunArgument,
    steps: Annotated[int, typer.Option(min=1, help="How many steps.")] = 100,
    data: Annotated[
        str | None, typer.Option(help="Go on from the end of this file, not of the run's own data.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write CSV to this file instead of printing it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw it, to this .png, .svg or .pdf file.")] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """How a series goes on, free running: each step is fed the prediction of the step before. Prints CSV, with the bounds of an
    interval where the model draws many trajectories."""
    from recurra.errors import OptionError
    from recurra.plots.figure import name_files
    from recurra.runs.disk import reason, replace_file

    if plot is not None:
        name_files(plot)  # a name that is no picture's is refused before anything is computed
    opened = open_run(run, device)
    found = opened.forecast(steps, data)
    if plot is not None:
        found.plot(plot, title=f"{steps} steps of {data or opened.settings.data.path or found.names[0]}")
    if out is not None:
        try:
            replace_file(out, found.to_csv().encode())
        except OSError as error:
            raise OptionError(f"{out} cannot be written ({reason(error)}). Choose another place.") from error
    if as_json:
        print_json({"run": str(run)} | found.to_json())
    elif out is None:
        print(found.to_csv(), end="")
