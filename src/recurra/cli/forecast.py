from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def forecast(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    steps: Annotated[int, typer.Option(min=1, help="How many steps.")] = 100,
    data: Annotated[
        str | None, typer.Option(help="Go on from the end of this file, not of the run's own data.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write CSV to this file instead of printing it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw it, to this .png or .svg file.")] = None,
    as_json: AsJson = False,
) -> None:
    """How a series goes on: the model runs free, each step fed what the step before said. Prints CSV, with the bounds of an
    interval where the model draws many trajectories."""
    from recurra.errors import OptionError
    from recurra.runs.disk import reason, replace_file
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.forecast import ForecastTask
    from recurra.tasks.reservoir import ReservoirTask

    _, task, model = open_run(run)
    if not isinstance(task, ReservoirTask | ForecastTask):
        raise OptionError(f"{run} forecasts no series: its recipe is {task.settings.name}. Use recurra evaluate.")
    if plot is not None:
        from recurra.plots.figure import name_files

        name_files(plot)
    seen = task.forecast(model, steps, data)
    if plot is not None:
        seen.plot(plot, title=f"{steps} steps of {data or task.settings.data.path or seen.names[0]}")
    if out is not None:
        try:
            replace_file(out, seen.to_csv().encode())
        except OSError as error:
            raise OptionError(f"{out} cannot be written ({reason(error)}). Choose another place.") from error
    if as_json:
        print_json({"run": str(run)} | seen.to_json())
    elif out is None:
        print(seen.to_csv(), end="")
