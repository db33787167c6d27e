from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table


def depth(
    parameters: Annotated[int, typer.Option(min=1000, help="Of every network, as near as its size allows.")] = 100_000,
    steps: Annotated[int, typer.Option(min=1, help="Updates of each.")] = 1000,
    data: Annotated[str | None, typer.Option(help="A text; otherwise the source of Python's standard library.")] = None,
    seed: Annotated[int, typer.Option(help="Of text, weights and order.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Extra layers before, inside and after the recurrence, at equal numbers of parameters: nats on validation text."""
    from recurra.benchmarks.depth import compare_depth

    rows = []
    for row in compare_depth(parameters, steps, data, seed):
        rows.append(row)
        typer.echo(f"{row.place}: {row.valid:.4f} after {row.seconds:.0f} s", err=True)
    if as_json:
        print_json({"parameters": parameters, "steps": steps, "seed": seed, "rows": [asdict(row) for row in rows]})
        return
    print_table(
        f"depth at about {parameters:,} parameters, {steps} steps",
        ["extra layers", "units", "parameters", "nats", "seconds"],
        [[r.place, str(r.hidden_size), f"{r.parameters:,}", f"{r.valid:.4f}", f"{r.seconds:.0f}"] for r in rows],
    )
