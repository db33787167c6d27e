from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from recurra.cli.lecture import Plot, read_numbers, show
from recurra.cli.output import AsJson


def memory(
    task: Annotated[str, typer.Argument(help="adding, copying or parity.")] = "adding",
    cells: Annotated[str, typer.Option(help="With commas between them.")] = "elman,gru,lstm,leaky,orthogonal",
    lengths: Annotated[str, typer.Option(help="With commas between them.")] = "5,10,20,40,80",
    steps: Annotated[int, typer.Option(min=1, help="Updates of each.")] = 600,
    hidden_size: Annotated[int, typer.Option(min=1, help="Units of each.")] = 32,
    seeds: Annotated[int, typer.Option(min=1, help="How often each is trained.")] = 3,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Success over length for each cell: where plain networks stop remembering.

    As it stands, 75 trainings in one thread: a few minutes for a task on an idle machine.
    """
    from recurra.benchmarks.memory import compare_memory

    sizes = [int(each) for each in read_numbers("--lengths", lengths)]
    names = [each.strip() for each in cells.split(",") if each.strip()]
    how = {"steps": steps, "hidden_size": hidden_size, "seeds": seeds}
    show(compare_memory(task, names, sizes, **how, say=partial(typer.echo, err=True)), plot, as_json)
