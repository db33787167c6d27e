from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.bench import progress
from recurra.cli.output import AsJson, open_run, print_json, print_result


def c(
    run: Annotated[
        Path | None, typer.Argument(help="A run of piano-roll or events: what does it lose as C, and in 8 bits?")
    ] = None,
    hidden_size: Annotated[int, typer.Option(min=1, help="Units of the LSTM that is timed.")] = 32,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds through all runners; medians are reported.")] = 15,
    as_json: AsJson = False,
) -> None:
    """An LSTM as C beside the Stepper and ONNX Runtime: µs of a step and bytes; or, with a run, its scores as C."""
    from recurra.benchmarks.c_export import bench_c, evaluate_in_c

    if run is not None:
        opened = open_run(run)
        print_result(evaluate_in_c(opened.task, opened.model), as_json)
        return
    with progress() as say:
        found = bench_c(hidden_size=hidden_size, repeats=repeats, say=say)
    print_json(found.to_json()) if as_json else print(found)
