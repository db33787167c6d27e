from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, console, print_json, print_table


def check(
    name: Annotated[str, typer.Argument(help="The cell: FILE.py:NAME for your own, or a name of the catalogue.")],
    batch_size: Annotated[int, typer.Option(min=1)] = 3,
    length: Annotated[int, typer.Option(min=1)] = 17,
    input_size: Annotated[int, typer.Option(min=1)] = 5,
    hidden_size: Annotated[int, typer.Option(min=1)] = 7,
    as_json: AsJson = False,
) -> None:
    """Check a cell: its equations against finite differences, then every engine against the plain loop.

    Exit code 1 if anything disagrees.
    """
    from recurra.cells.catalogue import find_cell
    from recurra.layers.agreement import check_cell
    from recurra.types import Shape

    cell = find_cell(name)
    report = check_cell(cell, Shape(batch_size, length, input_size, hidden_size))
    if as_json:
        print_json(report.as_dict())
    else:
        out = console()
        out.print(f"{cell.name}: {'; '.join(cell.graph.equations())}\n", markup=False, highlight=False)
        rows = [
            [row.what, f"{row.error:.1e}", f"{row.limit:.0e}", "ok" if row.agrees else "DISAGREES"]
            for row in report.rows
        ]
        print_table("", ["check (float64)", "error", "limit", ""], rows)
        for engine, reason in report.not_run.items():
            out.print(f"{engine} does not run it: {reason}", markup=False, highlight=False)
        verdict = "all agree" if report.agrees else "something disagrees"
        out.print(f"\n{verdict}", markup=False, highlight=False)
    if not report.agrees:
        raise typer.Exit(1)
