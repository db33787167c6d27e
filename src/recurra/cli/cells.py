from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json, print_table
from recurra.results import Table


def cells(
    name: Annotated[
        str | None, typer.Argument(help="A cell: gru, 'skip(d=8)', FILE.py:NAME, FILE.json. Without it: the list.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the picture of the cell to this SVG file.")] = None,
    source: Annotated[str | None, typer.Option(help="Print the code generated for it: cpp, cuda or triton.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the cells, or show one: equations, parameters, stages, and which engines run it."""
    from recurra.cells.catalogue import CATALOGUE, find_cell
    from recurra.cells.picture import draw
    from recurra.engines.describe import describe_cell
    from recurra.engines.fused import gpu, kernels
    from recurra.errors import choose_from

    if name is None:
        listed = {key: describe_cell(cell) for key, cell in CATALOGUE.items()}
        if as_json:
            print_json({key: each.to_json() for key, each in listed.items()})
        else:
            rows = [[key, e.summary, ", ".join(e.states), ", ".join(e.runs_on)] for key, e in listed.items()]
            print_table(Table(["cell", "what it is", "states", "engines on this machine"], rows))
        return
    cell = find_cell(name)
    if source is not None:
        choose_from("source", source, ["cpp", "cuda", "triton"])
        print(kernels.source_of(cell.graph) if source == "cpp" else gpu.source_of(cell.graph, source))
        return
    if picture is not None:
        picture.write_text(draw(cell.graph))
    found = describe_cell(cell)
    print_json(found.to_json()) if as_json else print(found)
