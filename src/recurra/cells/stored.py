"""A cell as JSON: its graph, node by node, without a line of code.

A run folder keeps a cell this way, so that it opens without the file that the cell was written in and runs nothing of a
stranger's; an exported model carries it for readers in other languages. `nodes` come after their arguments:

    {"kind": "drive", "name": "z"}                  W_z x_t + b_z
    {"kind": "state", "name": "h", "delay": 1}      the state, as many steps before
    {"kind": "product", "name": "z", "of": [1]}     U_z times node 1
    {"kind": "norm", "name": "gain_z", "of": [2]}   LayerNorm, with that parameter as its gain
    {"kind": "parameter" | "noise", "name": …}      one number for each unit
    {"kind": "constant", "value": 1.0}
    {"kind": "add" | "tanh" | …, "of": [0, 2]}      an elementwise operation (`recurra.cells.operations`)

`updates` are the nodes of the next states, in the order of `states`; `gates` are the nodes that the equations name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from recurra.cells.graph import Graph, Node, Noise, constant, make, operation, walk
from recurra.cells.notation import Cell, Symbol, ago, noise, norm
from recurra.cells.operations import OPERATIONS, apply
from recurra.cells.parameters import Fixed, Groups, Learned, Ramp, Scattered
from recurra.errors import CellError, RecurraError

FORMAT = "recurra.cell/1"
MOST_NODES, MOST_DELAY, LONGEST_PATH = 4096, 65536, 400
_FIELDS = {
    "format": str,
    "name": str,
    "about": str,
    "states": list,
    "drives": list,
    "matrices": list,
    "nodes": list,
    "updates": list,
    "gates": dict,
    "parameters": dict,
    "noises": dict,
    "bias": dict,
    "constraints": dict,
}
_ODD_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # which JSON has no numbers for


def store_cell(cell: Cell) -> dict[str, Any]:
    """The cell as plain dictionaries, lists, strings and numbers. `restore_cell` is the inverse.

    ```python
    from recurra.cells.stored import restore_cell, store_cell

    again = restore_cell(store_cell(rc.find_cell("gru")))
    again.graph.equations() == rc.find_cell("gru").graph.equations()        # True
    ```
    """
    graph = cell.graph
    number = {node: k for k, node in enumerate(graph.nodes)}
    gains = [node.name for node in graph.nodes if node.kind == "norm"]
    unused = [name for name in graph.parameters if name not in cell.options and name not in gains]
    if unused:
        raise CellError(f"cell {cell.name!r}: the norm of {unused[0]} is computed and never used. Take it out.")
    heights: dict[Node, int] = {}
    for node in graph.nodes:
        heights[node] = 1 + max((heights[argument] for argument in node.arguments), default=0)
    if len(heights) > MOST_NODES or max(heights.values()) > LONGEST_PATH:
        raise CellError(
            f"cell {cell.name!r} has {len(heights)} operations, nested {max(heights.values())} deep; {MOST_NODES} and "
            f"{LONGEST_PATH} can be stored. Write it shorter, or save state_dict() and build the cell again."
        )
    nodes = []
    for node in graph.nodes:
        row: dict[str, Any] = {"kind": node.kind}
        if node.name:
            row["name"] = node.name
        if node.kind == "state":
            row["delay"] = node.delay
        if node.kind == "constant":
            row["value"] = _number(node.value)
        if node.arguments:
            row["of"] = [number[argument] for argument in node.arguments]
        nodes.append(row)
    return {
        "format": FORMAT,
        "name": cell.name,
        "about": cell.__doc__ or "",
        "states": list(cell.states),
        "drives": list(graph.drives),
        "matrices": list(graph.matrices),
        "nodes": nodes,
        "updates": [number[update] for update in graph.updates],
        "gates": {name: number[node] for name, node in graph.gates.items()},
        "parameters": {name: _declaration(each) for name, each in graph.parameters.items()},
        "noises": {
            each.name: {"chance": each.chance, "scale": each.scale, "per": each.per} for each in graph.noises.values()
        },
        "bias": dict(graph.bias),
        "constraints": dict(graph.constraints),
    }


def fingerprint(cell: Cell) -> str:
    """A digest of the equations and of the order of their lines: cells that have the same one compute the same from the same
    packed weights."""
    stored = store_cell(cell)
    told = {
        name: stored[name] for name in ("states", "drives", "matrices", "nodes", "updates", "noises", "constraints")
    }
    return _sha(told)


_COMMUTES = ("add", "multiply", "minimum", "maximum", "equal", "and", "or")


@lru_cache(maxsize=256)
def equations_digest(graph: Graph) -> str:
    """A digest of the equations whatever the order of their lines: cells that have the same one compute the same from weights
    of the same names. Masks (zoneout, recurrent dropout) count as left out: they are of training."""
    off = {name: constant(1.0 if abs(each.mean - 1) < 1e-9 else 0.0) for name, each in graph.noises.items()}
    plain: dict[Node, Node] = {}
    for node in walk(graph.updates):
        inner = [plain[argument] for argument in node.arguments]
        if node.kind == "noise":
            plain[node] = off[node.name]
        elif node.kind in OPERATIONS:
            plain[node] = operation(node.kind, *inner)
        else:
            plain[node] = make(node.kind, *inner, name=node.name, value=node.value, delay=node.delay)
    updates = [plain[update] for update in graph.updates]
    digests: dict[Node, str] = {}
    for node in walk(updates):
        inner_digests = [digests[argument] for argument in node.arguments]
        if node.kind in _COMMUTES:
            inner_digests.sort()
        digests[node] = _sha([node.kind, node.name, _number(node.value), node.delay, inner_digests])
    units = {}
    for name, declared in graph.parameters.items():
        row = _declaration(declared)
        units[name] = {**row, "value": None} if row["learned"] else row  # the first value is not what was learned
    states = [[state.name, state.depth] for state in graph.states]
    return _sha([states, [digests[update] for update in updates], units, dict(graph.constraints)])


def _sha(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def restore_cell(stored: Any) -> Cell:
    """The cell of `store_cell`, read without running any code of whoever stored it; an error says what is damaged.

    Sizes are bounded: 4,096 nodes, delays of 65,536 steps.
    """
    plan = _Plan(stored)
    options = {name: each for name, each in plan.parameters.items() if name not in plan.gains}

    def equations(x: Any, U: Any, *states: Any, **units: Any) -> Any:
        return plan.run(x, U, states, units)

    equations.__doc__ = plan.about
    try:
        cell = Cell(
            equations,
            name=plan.name,
            states=plan.states,
            options=options,
            bias=plan.bias,
            constraints=plan.constraints,
        )
    except RecurraError as error:
        plan.fail(str(error))
    _compare(cell.graph, stored, plan)
    return cell


def _compare(graph: Graph, stored: Mapping[str, Any], plan: _Plan) -> None:
    """What was read again must be what was stored: the order of drives and matrices is the order of rows of the weights."""
    for name, found in (("drives", graph.drives), ("matrices", graph.matrices)):
        if list(found) != stored[name]:
            plan.fail(f"{name} do not belong to its nodes")
    if set(graph.gates) != set(stored["gates"]):
        plan.fail("gates do not belong to its nodes")
    if len(graph.nodes) != len(plan.nodes):
        plan.fail("it has nodes that nothing needs")


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _declaration(declared: Learned | Fixed) -> dict[str, Any]:
    value: Any = declared.value
    if isinstance(value, Ramp):
        kind = "scattered" if isinstance(value, Scattered) else "ramp"
        value = {"kind": kind, "low": value.low, "high": value.high}
        if isinstance(declared.value, Scattered):
            value["step"] = declared.value.step
    elif not isinstance(value, int | float):
        value = [float(each) for each in (value.values if isinstance(value, Groups) else value)]
    row = {"learned": isinstance(declared, Learned), "value": value}
    if isinstance(declared, Learned):
        row |= {"low": declared.low, "high": declared.high}
    return row


class _Plan:
    """A stored cell, checked: what to compute in which order."""

    name = "stored cell"

    def __init__(self, stored: Any) -> None:
        if not isinstance(stored, dict):
            self.fail(f"expected an object, found {type(stored).__name__}")
        for name, kind in _FIELDS.items():
            if not isinstance(stored.get(name), kind):
                self.fail(f"{name!r} is missing or is not {'text' if kind is str else f'a {kind.__name__}'}")
        if stored["format"] != FORMAT:
            self.fail(f"its format is {stored['format'][:40]!r}, and this version reads {FORMAT}")
        if not re.fullmatch(r"[\w (),.:={}'/-]{1,200}", stored["name"]):
            self.fail("its name has more than 200 characters, or odd ones")
        self.name, self.about = stored["name"], stored["about"][:4000]
        self.states = tuple(self.word(name, "a state") for name in stored["states"])
        if not self.states or len(set(self.states)) < len(self.states):
            self.fail("it has no state, or two of one name")
        self.parameters = {
            self.word(name, "a parameter"): self.parameter(each) for name, each in stored["parameters"].items()
        }
        self.noises = {self.word(name, "a mask"): self.noise(name, each) for name, each in stored["noises"].items()}
        self.bias = {self.word(name, "a bias"): self.real(value, "a bias") for name, value in stored["bias"].items()}
        self.constraints = {self.word(name, "a matrix"): value for name, value in stored["constraints"].items()}
        if not all(isinstance(value, str) for value in self.constraints.values()):
            self.fail("a constraint is not text")
        if len(stored["nodes"]) > MOST_NODES:
            self.fail(f"it has {len(stored['nodes'])} nodes; at most {MOST_NODES} are read")
        self.nodes: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
        self.gains: list[str] = []
        self.heights: list[int] = []
        self.gates: dict[int, list[str]] = {}
        for name, node in stored["gates"].items():
            self.gates.setdefault(self.place(node, len(stored["nodes"])), []).append(self.word(name, "a gate"))
        for k, row in enumerate(stored["nodes"]):
            self.add(k, row)
            if self.heights[k] > LONGEST_PATH:
                self.fail("its equations are nested too deep")
        self.updates = [self.place(node, len(self.nodes)) for node in stored["updates"]]

    def fail(self, why: str) -> NoReturn:
        raise CellError(f"{self.name}: the stored cell cannot be used: {why}.")

    def word(self, name: Any, what: str) -> str:
        if not (isinstance(name, str) and name.isidentifier() and len(name) <= 64 and not name.startswith("__")):
            self.fail(f"the name of {what} is {str(name)[:40]!r}, which is not an identifier")
        return name

    def real(self, value: Any, what: str) -> float:
        if isinstance(value, str) and value in _ODD_NUMBERS:
            return _ODD_NUMBERS[value]
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e308:
            self.fail(f"{what} is {str(value)[:40]!r}, which is not a number")
        return float(value)

    def place(self, node: Any, before: int) -> int:
        if isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < before:
            self.fail(f"node {str(node)[:40]!r} is asked for where {before} are known")
        return node

    def parameter(self, row: Any) -> Learned | Fixed:
        if not isinstance(row, dict) or not isinstance(row.get("learned"), bool):
            self.fail("a parameter is not declared as learned or fixed")
        value: Any = row.get("value")
        if isinstance(value, dict):
            low, high = (self.real(value.get(name), "a ramp's end") for name in ("low", "high"))
            scattered = value.get("kind") == "scattered"
            value = Scattered(low, high, self.real(value.get("step"), "a step")) if scattered else Ramp(low, high)
        elif isinstance(value, list):
            if not 0 < len(value) <= MOST_DELAY:
                self.fail(f"a parameter has {len(value)} values")
            value = Groups([self.real(each, "a parameter") for each in value])
        else:
            value = self.real(value, "a parameter")
        if not row["learned"]:
            return Fixed(value)
        bounds = [None if row.get(k) is None else self.real(row[k], "a bound") for k in ("low", "high")]
        try:
            return Learned(value, *bounds)
        except RecurraError as error:
            self.fail(str(error))

    def noise(self, name: str, row: Any) -> Noise:
        if not isinstance(row, dict) or row.get("per") not in ("step", "sequence"):
            self.fail("a mask is neither of a step nor of a sequence")
        return Noise(name, self.real(row.get("chance"), "a chance"), self.real(row.get("scale"), "a scale"), row["per"])

    def add(self, k: int, row: Any) -> None:
        """Node k: a function of `(x, U, states, units, *arguments)`, and which nodes the arguments are."""
        if not isinstance(row, dict) or not isinstance(row.get("kind"), str) or not isinstance(row.get("of", []), list):
            self.fail(f"node {k} is not an object with a kind")
        kind, arguments = row["kind"], tuple(self.place(node, k) for node in row.get("of", []))
        if kind in OPERATIONS:
            wanted = len(OPERATIONS[kind].partials)
        elif kind in ("product", "norm"):
            wanted = 1
        elif kind in ("drive", "state", "parameter", "noise", "constant"):
            wanted = 0
        else:
            self.fail(f"node {k} is of kind {kind[:40]!r}, which this version does not know")
        if len(arguments) != wanted:
            self.fail(f"node {k} ({kind}) has {len(arguments)} arguments, not {wanted}")
        self.heights.append(1 + max((self.heights[a] for a in arguments), default=0))
        self.nodes.append((self.function(k, kind, row), arguments))

    def function(self, k: int, kind: str, row: Mapping[str, Any]) -> Callable[..., Any]:
        if kind == "constant":
            value = self.real(row.get("value"), "a constant")
            return lambda x, U, states, units: value
        if kind in OPERATIONS:
            return lambda x, U, states, units, *arguments: apply(kind, *arguments)
        name = self.word(row.get("name"), f"node {k}")
        if kind in ("drive", "product") and (name.startswith("_") or name == "operate"):
            self.fail(f"node {k} is called {name!r}, which x and U have another use for")
        match kind:
            case "drive":
                return lambda x, U, states, units: getattr(x, name)
            case "product":
                return lambda x, U, states, units, v: getattr(U, name)(v)
            case "norm":
                if not name.startswith("gain_") or name not in self.parameters or name in self.gains:
                    self.fail(f"node {k} is a norm without a gain of its own")
                self.gains.append(name)
                return lambda x, U, states, units, v: norm(v, name.removeprefix("gain_"))
            case "state":
                if name not in self.states:
                    self.fail(f"node {k} reads the state {name!r}, which it does not have")
                which, delay = self.states.index(name), row.get("delay", 1)
                if isinstance(delay, bool) or not isinstance(delay, int) or not 1 <= delay <= MOST_DELAY:
                    self.fail(f"node {k} reads a state {str(delay)[:40]} steps back")
                return lambda x, U, states, units: ago(states[which], delay) if delay > 1 else states[which]
            case "parameter":
                if name not in self.parameters:
                    self.fail(f"node {k} reads the parameter {name!r}, which is not declared")
                return lambda x, U, states, units: units[name]
            case _:
                if name not in self.noises:
                    self.fail(f"node {k} reads the mask {name!r}, which is not declared")
                mask = self.noises[name]
                return lambda x, U, states, units: noise(x, name, chance=mask.chance, scale=mask.scale, per=mask.per)

    def run(self, x: Any, U: Any, states: Sequence[Any], units: Mapping[str, Any]) -> tuple[Any, ...]:
        """The next states, on tensors; on symbols, while the cell is read, the gates get their names too."""
        values: list[Any] = []
        for k, (function, arguments) in enumerate(self.nodes):
            value = function(x, U, states, units, *(values[a] for a in arguments))
            if isinstance(value, Symbol):
                for name in self.gates.get(k, ()):
                    value.reading.call(name, value.node)
            values.append(value)
        return tuple(values[k] for k in self.updates)
