from __future__ import annotations

from itertools import cycle, islice
from typing import Annotated

import typer

from recurra.cli.lecture import read_numbers
from recurra.cli.output import AsJson, RunArgument, open_run, print_json


def robot(
    run: RunArgument,
    programs: Annotated[str, typer.Option(help="Which ones, in turn.")] = "1,2,3,4,5,6",
    washes: Annotated[int, typer.Option(min=1, help="How many.")] = 6,
    moments: Annotated[bool, typer.Option("--moments", help="Print every button, trigger and state.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a trained network operate the washing machine: it presses buttons and waits for the machine's own triggers."""
    chosen = [int(each) for each in read_numbers("--programs", programs)]
    work = open_run(run).robot(list(islice(cycle(chosen), washes)))
    if as_json:
        print_json(work.to_json())
    else:
        print(work.table() if moments else work)
