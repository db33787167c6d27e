from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def training(
    size: Annotated[str, typer.Option(help="Chunks x steps x units (BxTxH).")] = "32x128x256",
    repeats: Annotated[int, typer.Option(min=1, help="Pairs of timings; medians are reported.")] = 9,
    as_json: AsJson = False,
) -> None:
    """The whole training loop beside a bare one: forward, backward and optimiser on one batch."""
    from recurra.benchmarks.training import bench_loop
    from recurra.cli.bench import read_size

    shape = read_size(size)
    found = bench_loop(batch_size=shape.B, length=shape.T, hidden_size=shape.H, repeats=repeats)
    symbols = shape.B * shape.T
    if as_json:
        print_json({"size": size, "bare_seconds": found.bare, "loop_seconds": found.loop, "ratio": found.ratio})
        return
    rows = [
        ["bare loop", f"{found.bare * 1e3:.2f}", f"{symbols / found.bare:,.0f}", "1.00"],
        ["recurra's loop", f"{found.loop * 1e3:.2f}", f"{symbols / found.loop:,.0f}", f"{found.ratio:.2f}"],
    ]
    print_table(f"an LSTM language model, {size}", ["", "ms a step", "symbols/s", "time"], rows)
