from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.bench import progress
from recurra.cli.lecture import read_numbers
from recurra.cli.output import AsJson, print_json


def short(
    steps: Annotated[str, typer.Option(help="Steps of a call (T), with commas.")] = "1,2,4,8,16,32",
    rows: Annotated[str, typer.Option(help="Batch rows (B), with commas.")] = "1,2,8,32",
    sizes: Annotated[str, typer.Option(help="Units (H), with commas; inputs are as wide.")] = "64,256",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds through all runners; medians are reported.")] = 15,
    threads: Annotated[int, typer.Option(min=0, help="Threads. Default (0): torch's, by OMP_NUM_THREADS.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Calls of few steps on a CPU: an LSTM beside nn.LSTM, nn.LSTMCell and a loop by hand; agreement first.

    Exit code 1 if they disagree.
    """
    from recurra.benchmarks.short import bench_short

    options = {"--steps": steps, "--rows": rows, "--sizes": sizes}
    numbers = [read_numbers(name, text) for name, text in options.items()]
    with progress() as say:
        found = bench_short(*numbers, repeats=repeats, threads=threads, say=say)
    print_json(found.to_json()) if as_json else print(found)
    if not found.agrees:
        raise typer.Exit(1)
