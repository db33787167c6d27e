from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, Device, RunArgument, open_run, print_json


def predict(
    run: RunArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            help="Sequences as in training, labels not needed, or a text per line (.txt); otherwise the run's own test part."
        ),
    ] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """The label of each sequence of a file and its probability, a line each; of a tagger, the tags of its steps; of an event
    log, what follows in each case, and when."""
    found = open_run(run, device).predict(file)
    if as_json:
        print_json({"run": str(run), "data": file} | found.to_json())
        return
    for line in found.lines():
        print(line)
