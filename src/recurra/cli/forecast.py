from __future__ import annotations

import csv
import io
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
    """How a series goes on: the model runs free, each step fed what the step before said. Prints CSV."""
    from recurra.errors import OptionError
    from recurra.recipes.catalogue import open_run
    from recurra.recipes.reservoir import Reservoir
    from recurra.runs.disk import reason, replace_file

    _, experiment, model = open_run(run)
    if not isinstance(experiment, Reservoir):
        raise OptionError(f"{run} forecasts no series: its recipe is {experiment.recipe.name}. Use recurra evaluate.")
    names = experiment.vocabulary["columns"]
    said, known = experiment.forecast(model, steps, data)
    if plot is not None:
        from recurra.analysis.forecast_plot import plot_forecast

        plot_forecast(known, said, names, plot, f"{steps} steps of {data or experiment.recipe.data.path or names[0]}")
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([names, *said.tolist()])
    if out is not None:
        try:
            replace_file(out, table.getvalue().encode())
        except OSError as error:
            raise OptionError(f"{out} cannot be written ({reason(error)}). Choose another place.") from error
    if as_json:
        print_json({"run": str(run), "columns": names, "values": said.tolist()})
    elif out is None:
        print(table.getvalue(), end="")
