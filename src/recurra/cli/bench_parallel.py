from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.bench import progress, read_size
from recurra.cli.output import AsJson, print_json


def parallel(
    device: Annotated[str, typer.Option(help="cuda or cpu.")] = "cuda",
    scans: Annotated[str, typer.Option(help="Sizes for scan (BxTxH), with commas. Default: of docs/engines.md.")] = "",
    solutions: Annotated[str, typer.Option(help="Sizes for newton. Default: of docs/engines.md.")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds through all runners; medians are reported.")] = 7,
    as_json: AsJson = False,
) -> None:
    """All of time side by side: the engines scan and newton beside fused; agreement first.

    Exit code 1 if they disagree.
    """
    from recurra.benchmarks.parallel import SCANS, SOLUTIONS, bench_parallel

    asked = ((scans, SCANS), (solutions, SOLUTIONS))
    sizes = [[read_size(size) for size in text.split(",")] if text else usual for text, usual in asked]
    with progress() as say:
        found = bench_parallel(device=device, scans=sizes[0], solutions=sizes[1], repeats=repeats, say=say)
    print_json(found.to_json()) if as_json else print(found)
    if not found.agrees:
        raise typer.Exit(1)
