from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder of the recipe classify, tag or events.")],
    file: Annotated[
        str | None,
        typer.Argument(
            help="Sequences as in training, labels not needed, or a text per line (.txt); otherwise the run's own test part."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The label of each sequence of a file and its probability, a line each; of a tagger, the tags of its steps; of an event
    log, what follows in each case, and when."""
    from recurra.errors import OptionError
    from recurra.tasks.catalogue import open_run
    from recurra.tasks.classify import LabelTask
    from recurra.tasks.events import EventTask

    _, task, model = open_run(run)
    if isinstance(task, EventTask):
        cases = task.predict(model, file)
        if as_json:
            print_json({"run": str(run), "data": file, "predictions": [asdict(case) for case in cases]})
        for case in () if as_json else cases:
            chances = ", ".join(f"{name} {chance:.4f}" for name, chance in case.probabilities.items())
            wait = [] if case.seconds is None else [f"in {case.seconds / 3600:.1f} h"]
            further = [f"{column} {value or '(empty)'}" for column, value in case.attributes.items()]
            print("\t".join([case.case, chances, *wait, *further]))
        return
    if not isinstance(task, LabelTask):
        raise OptionError(f"{run} gives no labels: its recipe is {task.settings.name}. Use recurra evaluate.")
    rows = task.predict(model, file)
    if as_json:
        print_json({"run": str(run), "data": file, "predictions": rows})
        return
    for row in rows:
        print(" ".join(row["tags"]) if "tags" in row else f"{row['label']}\t{row['probability']:.4f}")
