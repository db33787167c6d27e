from __future__ import annotations

from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def check(
    name: Annotated[str, typer.Argument(help="The cell: FILE.py:NAME for your own, or a name of the catalogue.")],
    batch_size: Annotated[int, typer.Option(min=1)] = 3,
    length: Annotated[int, typer.Option(min=1)] = 17,
    input_size: Annotated[int, typer.Option(min=1)] = 5,
    hidden_size: Annotated[int, typer.Option(min=1)] = 7,
    as_json: AsJson = False,
) -> None:
    """Check a cell: its equations against finite differences, then every engine against the eager engine.

    Exit code 1 if anything disagrees.
    """
    from recurra.cells.catalogue import find_cell
    from recurra.layers.agreement import check_cell
    from recurra.types import Shape

    found = check_cell(find_cell(name), Shape(batch_size, length, input_size, hidden_size))
    print_json(found.to_json()) if as_json else print(found)
    if not found.agrees:
        raise typer.Exit(1)
