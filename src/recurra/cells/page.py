"""The documentation page of a cell, written from its graph: `python -m recurra.cells.page docs/cells` writes them all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from recurra.cells.catalogue import CATALOGUE
from recurra.cells.graph import LEAVES, NORM_EPSILON, Graph, write
from recurra.cells.notation import Cell
from recurra.cells.operations import ACTIVATIONS
from recurra.cells.parameters import Fixed, Groups, Learned
from recurra.cells.picture import draw
from recurra.errors import OptionError, RecurraError

COMMAND = "python -m recurra.cells.page docs/cells"


def page(cell: Cell) -> str:
    """The page in Markdown. It shows the picture `NAME.svg`, which stands beside it."""
    graph = cell.graph
    first, *rest = paragraphs(cell) or [""]
    parts = [f"# {cell.name}", first, *rest, f"![The cell {cell.name}]({cell.name}.svg)", *_equations(graph)]
    parts += [_parameters(graph), *_options(cell), _states(graph), _products(graph), _facts(graph)]
    if CATALOGUE.get(cell.name) is cell:
        parts.append(_example(cell))
    return "\n\n".join(part for part in parts if part) + "\n"


def paragraphs(cell: Cell) -> list[str]:
    """The docstring in paragraphs, each on one line. The first says what the cell is."""
    return [" ".join(part.split()) for part in (cell.__doc__ or "").split("\n\n") if part.strip()]


def count_formula(graph: Graph) -> str:
    """How many numbers one layer in one direction learns, in H (hidden size) and D (input size): `4HD + 4H² + 4H`."""
    return " + ".join(f"{n if n > 1 else ''}{size}" for size, n in _terms(graph).items() if n) or "0"


def count(graph: Graph, hidden_size: int, input_size: int) -> int:
    """`count_formula` in numbers."""
    sizes = {"HD": hidden_size * input_size, "H²": hidden_size**2, "H": hidden_size}
    return sum(n * sizes[size] for size, n in _terms(graph).items())


def _terms(graph: Graph) -> dict[str, int]:
    vectors = len(graph.drives) + sum(isinstance(declared, Learned) for declared in graph.parameters.values())
    return {"HD": len(graph.drives), "H²": len(graph.matrices), "H": vectors}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _equations(graph: Graph) -> list[str]:
    lines = " \\\\\n".join(graph.latex())
    parts = ["## Equations", f"```math\n\\begin{{aligned}}\n{lines}\n\\end{{aligned}}\n```"]
    parts += ["In the notation, where a prime marks the next state:", f"```text\n{graph}\n```"]
    if any(node.kind == "norm" for node in graph.nodes):
        parts.append(
            f"`norm(v)` is LayerNorm: (v − mean) / √(variance + {NORM_EPSILON:g}) over the units, times a learned gain."
        )
    for noise in graph.noises.values():
        parts.append(
            f"`{noise.name}` is a random mask, drawn for each {noise.per}: {noise.scale:g} with probability "
            f"{noise.chance:g}, else 0. When evaluating it is {noise.mean:g}."
        )
    return parts


def _parameters(graph: Graph) -> str:
    rows = [(f"`W.{name}`", "H × D", "Xavier uniform", "learned") for name in graph.drives]
    rows += [(f"`b.{name}`", "H", f"{graph.bias.get(name, 0.0):g}", "learned") for name in graph.drives]
    for name in graph.matrices:
        form = graph.constraints.get(name)
        first = f"random, kept {form}" if form else "orthogonal, or what `init` says"
        rows.append((f"`U.{name}`", "H × H", first, "learned"))
    for name, declared in graph.parameters.items():
        rows.append((f"`{name}`", "H", *_declared(declared)))
    table = _table(("name", "shape", "first value", ""), rows)
    total = f"Learned numbers in one layer, with H = `hidden_size` and D = `input_size`: **{count_formula(graph)}**."
    return f"## Parameters\n\n{table}\n\n{total}"


def _declared(declared: Learned | Fixed) -> tuple[str, str]:
    """The first value, and whether and within which bounds it is learned."""
    value = declared.value
    if isinstance(value, (int, float)):
        first = f"{value:g}"
    elif isinstance(value, Sequence | Groups):
        values = value.values if isinstance(value, Groups) else value
        first = ", ".join(f"{v:g}" for v in values) + " (equal groups of units)"
    else:
        first = f"{value!r} (evenly over the units)"
    if isinstance(declared, Fixed):
        return first, "fixed"
    if declared.low is None and declared.high is None:
        return first, "learned"
    low = "−∞" if declared.low is None else f"{declared.low:g}"
    high = "∞" if declared.high is None else f"{declared.high:g}"
    return first, f"learned, between {low} and {high}"


def _options(cell: Cell) -> list[str]:
    """What `cell(option=value)` may change besides the per-unit parameters."""
    rows = []
    for name, value in cell.options.items():
        if not isinstance(value, (Learned, Fixed)):
            called = next((key for key, function in ACTIVATIONS.items() if function is value), None)
            rows.append((f"`{name}`", f'`"{called}"`' if called else f"`{value!r}`"))
    return [f"## Options\n\n{_table(('name', 'default'), rows)}"] if rows else []


def _states(graph: Graph) -> str:
    rows = []
    for place, state in enumerate(graph.states):
        shape = "[B, H]" if state.depth == 1 else f"[B, {state.depth}, H], oldest first"
        steps = sorted({node.delay for node in graph.nodes if node.kind == "state" and node.name == state.name})
        read = ", ".join(map(str, steps)) if steps else "never"
        rows.append((f"`{state.name}`", shape, read, "output" if place == 0 else ""))
    return f"## States\n\n{_table(('name', 'shape', 'read how many steps back', ''), rows)}"


def _products(graph: Graph) -> str:
    """The stages: products of one stage can run at the same time, a group of them as one product."""
    rows = []
    for k, stage in enumerate(graph.stages):
        for group in stage:
            names = ", ".join(f"`U.{name}`" for name in group.names)
            rows.append((str(k + 1), names, f"`{write(group.argument, graph.written, top=False)}`"))
    if not rows:
        return "## Products in each step\n\nNone: no matrix multiplies the state."
    note = "Products of the same argument are computed as one; a stage waits for the one before it."
    return f"## Products in each step\n\n{_table(('stage', 'matrices', 'of'), rows)}\n\n{note}"


def _facts(graph: Graph) -> str:
    """What can be told from the equations alone."""
    rows = [("linear in the state, given the inputs", _yes(graph.is_linear))]
    rows.append(("diagonal Jacobian: each unit sees its own past alone", _yes(graph.is_diagonal)))
    rows.append(("all of time can be computed at once, by a scan", _yes(not graph.obstacle_to_scan)))
    rows.append(("products that wait for one another in a step", str(len(graph.stages))))
    elementwise = sum(node.kind not in (*LEAVES, "product", "norm") for node in graph.nodes)
    rows.append(("elementwise operations in a step", str(elementwise)))
    rows.append(("gates that `record=True` gives", ", ".join(f"`{name}`" for name in graph.gates) or "none"))
    return f"## What the equations tell\n\n{_table(('', ''), rows)}"


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _example(cell: Cell) -> str:
    graph = cell.graph
    names = ", ".join(state.name for state in graph.states)
    unpacked = names if len(graph.states) > 1 else f"({names},)"
    first = graph.states[0]
    shape = "(4, 3)" if first.depth == 1 else f"(4, {first.depth}, 3)"
    lines = [
        "import torch",
        "",
        "import recurra as rc",
        "",
        f'layer = rc.Recurrent("{cell.name}", input_size=2, hidden_size=3)',
        "trace = layer(torch.randn(4, 10, 2), lengths=torch.tensor([10, 7, 1, 4]))",
        f"{unpacked} = trace.final[0][0]  # first layer, first direction: the state at each sequence's true end",
        f"assert trace.outputs.shape == (4, 10, 3) and {first.name}.shape == {shape}",
        f"assert sum(p.numel() for p in layer.parameters()) == {count(graph, 3, 2)}  # {count_formula(graph)}",
    ]
    return "## Example\n\n```python\n" + "\n".join(lines) + "\n```"


def index() -> str:
    """The page that lists all cells, and the wrappers."""
    rows = []
    for name, cell in CATALOGUE.items():
        graph = cell.graph
        states = ", ".join(f"`{state.name}`" for state in graph.states)
        products = sum(len(group.products) for stage in graph.stages for group in stage)
        rows.append((f"[{name}]({name}.md)", paragraphs(cell)[0], states, str(products), _yes(graph.is_linear)))
    table = _table(("cell", "what it is", "states", "products per step", "linear in the state"), rows)
    return _INDEX.format(table=table, command=COMMAND)


_INDEX = """# Cells

Each cell has a page with its equations, parameters and picture, read off the cell itself. `rc.Recurrent("NAME", ...)`
runs it; [how to write your own](../cells.md) takes a few lines.

{table}

## Wrappers

A wrapper takes a cell and gives a cell, so it works with every cell above and with your own.

- `zoneout(cell, p)`: at each training step each unit of each state stays as it was with probability p, which may differ by
  state. Krueger et al. 2017.
- `recurrent_dropout(cell, p)`: units are dropped from what the recurrent products read, with one mask for a whole
  sequence. Gal & Ghahramani 2016.

```python
import torch

import recurra as rc

lstm = rc.find_cell("lstm")
layer = rc.Recurrent(rc.zoneout(lstm, {{"h": 0.05, "c": 0.5}}), input_size=2, hidden_size=3)
x = torch.randn(4, 10, 2)
assert not torch.equal(layer(x).outputs, layer(x).outputs)  # training: a mask for each step
layer.eval()
assert torch.equal(layer(x).outputs, layer(x).outputs)  # evaluating: the mean

both = rc.recurrent_dropout(rc.zoneout(rc.find_cell("gru"), 0.1), 0.25)
print(both.graph)
```

These pages are written by `{command}`.
"""


def pages() -> dict[str, str]:
    """Every file of the folder by name: a page and a picture for each cell, and the index."""
    files = {"README.md": index()}
    for name, cell in CATALOGUE.items():
        files[f"{name}.md"] = page(cell)
        files[f"{name}.svg"] = draw(cell.graph)
    return files


def write_pages(folder: Path) -> list[Path]:
    """Write every page; each file appears whole or not at all, and no other file is touched."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{str(folder)!r} is a file. Pass the folder that the pages go to.")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages().items():
        beside = folder / f".{name}.{os.getpid()}"
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(folder / name)
        finally:
            beside.unlink(missing_ok=True)
        written.append(folder / name)
    return written


def main(arguments: Sequence[str]) -> int:
    """`python -m recurra.cells.page FOLDER`; the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(f"usage: {COMMAND}", file=sys.stderr)
        return 2
    try:
        written = write_pages(Path(arguments[0]))
    except (RecurraError, OSError) as error:
        print(f"recurra.cells.page: {error}", file=sys.stderr)
        return 2
    print(f"{len(written)} files written to {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
