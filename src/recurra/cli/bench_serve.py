from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.bench import progress
from recurra.cli.output import AsJson, print_result


def serve(
    hidden_size: Annotated[int, typer.Option(min=1, help="Units of the LSTM.")] = 256,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions that are stepped at the same time.")] = 200,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each way in each round.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often every way is measured; medians are shown.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Session steps a second of `recurra serve`, beside a plain FastAPI handler around nn.LSTM; answers compared first."""
    from recurra.benchmarks.serve import bench_serve

    with progress() as say:
        found = bench_serve(hidden_size=hidden_size, sessions=sessions, seconds=seconds, rounds=rounds, say=say)
    print_result(found, as_json, ratio=found.ratio())
