from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.bench import read_size
from recurra.cli.output import AsJson, print_json


def training(
    size: Annotated[str, typer.Option(help="Batch x steps x units (BxTxH).")] = "32x128x256",
    repeats: Annotated[int, typer.Option(min=1, help="Pairs of timings; medians are reported.")] = 9,
    as_json: AsJson = False,
) -> None:
    """The whole training loop beside a bare one: forward, backward and optimiser on one batch."""
    from recurra.benchmarks.training import bench_loop

    found = bench_loop(read_size(size), repeats=repeats)
    print_json(found.to_json()) if as_json else print(found)
