from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from recurra.tasks.task import Forecast


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
        from recurra.plots.picture import check_picture_name

        check_picture_name(plot)
    seen = task.forecast(model, steps, data)
    if plot is not None:
        from recurra.plots.forecast import plot_forecast

        title = f"{steps} steps of {data or task.settings.data.path or seen.names[0]}"
        plot_forecast(seen.known, seen.said, seen.names, plot, title, low=seen.low, high=seen.high)
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(_rows(seen))
    if out is not None:
        try:
            replace_file(out, table.getvalue().encode())
        except OSError as error:
            raise OptionError(f"{out} cannot be written ({reason(error)}). Choose another place.") from error
    if as_json:
        found: dict[str, Any] = {"run": str(run), "columns": list(seen.names), "values": seen.said.tolist()}
        if seen.low is not None and seen.high is not None:
            found |= {"low": seen.low.tolist(), "high": seen.high.tolist(), "interval": seen.level}
        print_json(found | ({"times": list(seen.times)} if seen.times else {}))
    elif out is None:
        print(table.getvalue(), end="")


def _rows(seen: Forecast) -> list[list[str | float]]:
    """The header and a row for each step: its time, and of each column what is said and the bounds around it."""
    header: list[str | float] = ["time"] if seen.times else []
    columns = []
    for k, name in enumerate(seen.names):
        header.append(name)
        columns.append(seen.said[:, k])
        if seen.low is not None and seen.high is not None and seen.level is not None:
            header += [f"{name} {(1 + side * seen.level) / 2:.3g}" for side in (-1, 1)]
            columns += [seen.low[:, k], seen.high[:, k]]
    times = [[time] for time in seen.times] or [[] for _ in seen.said]
    values = [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return [header, *([*time, *row] for time, row in zip(times, values, strict=True))]
