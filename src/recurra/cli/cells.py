from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.output import AsJson, console, print_json, print_table


def cells(
    name: Annotated[
        str | None, typer.Argument(help="A cell: gru, 'skip(d=8)', FILE.py:NAME. Without it: the list.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the picture of the cell to this SVG file.")] = None,
    source: Annotated[str | None, typer.Option(help="Print the code generated for it: cpp, cuda or triton.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the cells, or show one: equations, parameters, stages, and which engines run it."""
    from recurra.cells.catalogue import CATALOGUE, find_cell

    if name is None:
        listed = {key: _describe(cell) for key, cell in CATALOGUE.items()}
        if as_json:
            print_json(listed)
        else:
            rows = [[key, row["summary"], ", ".join(row["states"]), _runs(row)] for key, row in listed.items()]
            print_table("", ["cell", "what it is", "states", "engines on this machine"], rows)
        return

    cell = find_cell(name)
    if source is not None:
        from recurra.engines.fused import gpu, kernels
        from recurra.errors import choose_from

        choose_from("source", source, ["cpp", "cuda", "triton"])
        print(kernels.source_of(cell.graph) if source == "cpp" else gpu.source_of(cell.graph, source))
        return
    described = _describe(cell)
    if picture is not None:
        from recurra.cells.picture import draw

        picture.write_text(draw(cell.graph))
    if as_json:
        print_json(described)
        return
    out = console()
    out.print(f"{cell.name}: {described['about']}\n", markup=False, highlight=False)
    for line in described["equations"]:
        out.print(f"    {line}", markup=False, highlight=False)
    print_table(
        "\nparameters",
        ["name", "shape", "first value"],
        [[p["name"], p["shape"], p["first"]] for p in described["parameters"]],
    )
    stages = [
        [str(k + 1), "; ".join(f"U.[{', '.join(g['matrices'])}]({g['of']})" for g in s)]
        for k, s in enumerate(described["stages"])
    ]
    print_table("\nproducts in each step", ["stage", "products"], stages or [["-", "none"]])
    facts = f"linear in the state: {_yes(described['linear'])}; diagonal Jacobian: {_yes(described['diagonal'])}"
    out.print(f"\n{facts}\n", markup=False, highlight=False)
    print_table(
        "engines",
        ["engine", "runs it", "why not"],
        [[e, _yes(not why), why] for e, why in described["engines"].items()],
    )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _runs(row: dict[str, Any]) -> str:
    return ", ".join(engine for engine, why in row["engines"].items() if not why)


def _describe(cell: Any) -> dict[str, Any]:
    """Everything about a cell that its graph knows, and what each engine says of it (float32 on the CPU)."""
    import torch

    from recurra.cells.graph import write
    from recurra.engines.choose import ENGINES
    from recurra.types import Shape

    graph = cell.graph
    about = cell.__doc__ or ""
    shape = Shape(B=32, T=128, D=256, H=256)
    answers = {
        name: engine.supports(cell, torch.device("cpu"), torch.float32, shape) for name, engine in ENGINES.items()
    }
    parameters = [{"name": f"W.{d}", "shape": "H × D", "first": "Xavier"} for d in graph.drives]
    parameters += [{"name": f"b.{d}", "shape": "H", "first": f"{graph.bias.get(d, 0.0):g}"} for d in graph.drives]
    parameters += [
        {"name": f"U.{m}", "shape": "H × H", "first": graph.constraints.get(m, "orthogonal")} for m in graph.matrices
    ]
    parameters += [{"name": p, "shape": "H", "first": repr(declared)} for p, declared in graph.parameters.items()]
    return {
        "name": cell.name,
        "summary": " ".join(about.split("\n\n")[0].split()),
        "about": about,
        "equations": graph.equations(),
        "states": {state.name: state.depth for state in graph.states},
        "gates": list(graph.gates),
        "parameters": parameters,
        "stages": [
            [{"matrices": list(group.names), "of": write(group.argument, graph.names, top=False)} for group in stage]
            for stage in graph.stages
        ],
        "linear": graph.is_linear,
        "diagonal": graph.is_diagonal,
        "engines": {name: answer.reason for name, answer in answers.items()},
    }
