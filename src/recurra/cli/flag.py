from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def flag(
    run: Annotated[Path, typer.Argument(help="A run folder of the recipe events.")],
    file: Annotated[str | None, typer.Argument(help="An event log; otherwise the run's own test cases.")] = None,
    below: Annotated[float | None, typer.Option(min=0, max=1, help="Flag events less probable than this.")] = None,
    alarms: Annotated[
        float, typer.Option(min=0, max=1, help="Otherwise: as improbable as this share of validation events.")
    ] = 0.01,
    most: Annotated[int, typer.Option(min=1, help="Print so many, the least probable ones.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Events that should not be where they are: improbable after what came before them in their case."""
    from recurra.errors import OptionError
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.events import EventTask

    _, task, model = open_run(run)
    if not isinstance(task, EventTask):
        raise OptionError(f"{run} is no model of an event log: its recipe is {task.settings.name}.")
    threshold = task.threshold(model, alarms) if below is None else below
    found = sorted(task.flag(model, file, threshold), key=lambda each: each.probability)
    if as_json:
        print_json({"run": str(run), "data": file, "below": threshold, "flags": [asdict(each) for each in found]})
        return
    rows = [[f.case, str(f.number), f.activity, f"{f.probability:.2g}", f.expected] for f in found[:most]]
    print_table(
        f"{len(found)} events with a probability below {threshold:.2g}"
        + (f", {most} shown" if len(found) > most else ""),
        ["case", "event", "activity", "probability", "expected"],
        rows,
    )
