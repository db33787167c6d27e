"""The graph of a cell: drives, states, parameters, products and elementwise operations, read off its equations once.

Nodes are shared: building the same expression twice gives the same node, so products that read the same argument meet in
one group. Everything else in Recurra (engines, pictures, pages, Jacobians) starts from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from recurra.cells.operations import OPERATIONS

NORM_EPSILON = 1e-5
LEAVES = ("drive", "state", "parameter", "noise", "constant")
LONG = 8
"""Values of more nodes than this are written once, however often they are used."""


@dataclass(frozen=True, eq=False, weakref_slot=True, slots=True)
class Node:
    """One value of the cell at one step.

    `kind` is `drive`, `state`, `parameter`, `noise`, `constant`, `product`, `norm`, or the name of an elementwise
    operation. `delay` says how many steps back a state is read (1: the state as the cell receives it).
    """

    kind: str
    arguments: tuple[Node, ...] = ()
    name: str = ""
    value: float = 0.0
    delay: int = 1

    @property
    def is_condition(self) -> bool:
        return self.kind in OPERATIONS and OPERATIONS[self.kind].is_condition

    def __repr__(self) -> str:
        return f"<{write(self)}>"


_nodes: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()


def make(kind: str, *arguments: Node, name: str = "", value: float = 0.0, delay: int = 1) -> Node:
    """The one node of this description."""
    key = (kind, tuple(id(argument) for argument in arguments), name, value, delay)
    node = _nodes.get(key)
    if node is None:
        node = _nodes[key] = Node(kind, arguments, name, value, delay)
    return node


def constant(value: float) -> Node:
    return make("constant", value=float(value))


def operation(kind: str, *arguments: Node) -> Node:
    """An elementwise operation, with what costs nothing simplified: numbers folded, + 0 and × 1 dropped."""
    if all(argument.kind == "constant" for argument in arguments) and not OPERATIONS[kind].is_condition:
        values = (torch.tensor(argument.value, dtype=torch.float64) for argument in arguments)
        return constant(float(OPERATIONS[kind].value(*values)))
    zero, one = constant(0.0), constant(1.0)
    match kind, arguments:
        case ("add", (a, b)) if zero in (a, b):
            return b if a is zero else a
        case ("subtract", (a, b)) if b is zero:
            return a
        case ("subtract", (a, b)) if a is zero:
            return operation("negate", b)
        case ("multiply", (a, b)) if zero in (a, b):
            return zero
        case ("multiply", (a, b)) if one in (a, b):
            return b if a is one else a
        case ("multiply", (a, b)) if constant(-1.0) in (a, b):
            return operation("negate", b if a is constant(-1.0) else a)
        case ("divide" | "power", (a, b)) if b is one:
            return a
        case ("negate", (a,)) if a.kind == "negate":
            return a.arguments[0]
    return make(kind, *arguments)


def walk(roots: Iterable[Node], known: Callable[[Node], bool] = lambda node: False) -> list[Node]:
    """Every node that the roots need, arguments before their users; arguments of `known` nodes are not looked at."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        stack.append((node, iter(() if known(node) else node.arguments)))

    for root in roots:
        enter(root)
        while stack:
            node, rest = stack[-1]
            missing = next((argument for argument in rest if argument not in order), None)
            if missing is not None:
                enter(missing)
            else:
                order.setdefault(node)
                stack.pop()
    return list(order)


def evaluate(roots: Iterable[Node], leaf: Callable[[Node], Any], product: Callable[[str, Any], Any]) -> dict[Node, Any]:
    """The values of the roots and of all that they need, for any leading axes.

    `leaf` gives the value of a drive, state, parameter or noise; `product(name, v)` multiplies v by that matrix.
    """
    return evaluate_in_order(walk(roots), leaf, product)


def evaluate_in_order(
    nodes: Iterable[Node], leaf: Callable[[Node], Any], product: Callable[[str, Any], Any]
) -> dict[Node, Any]:
    """The same for nodes that come after their arguments, as those of a graph do: for those who evaluate it many times."""
    values: dict[Node, Any] = {}
    for node in nodes:
        arguments = [values[argument] for argument in node.arguments]
        if node.kind == "constant":
            values[node] = node.value
        elif node.kind == "product":
            values[node] = product(node.name, arguments[0])
        elif node.kind == "norm":
            gain = leaf(make("parameter", name=node.name))
            values[node] = layer_norm(arguments[0], gain)
        elif node.kind in LEAVES:
            values[node] = leaf(node)
        else:
            values[node] = OPERATIONS[node.kind].value(*arguments)
    return values


def layer_norm(v: Tensor, gain: Tensor) -> Tensor:
    """LayerNorm (Ba et al. 2016) over the units, without a bias."""
    return torch.nn.functional.layer_norm(v, v.shape[-1:], gain, eps=NORM_EPSILON)


def write(node: Node, names: Mapping[Node, str] | None = None, *, top: bool = True) -> str:
    """The node as an equation in the notation; nodes in `names` are written by name."""
    names = names or {}
    if not top and node in names:
        return names[node]
    if node.kind == "constant":
        return f"{node.value:g}"
    if node.kind == "drive":
        return f"x.{node.name}"
    if node.kind == "state":
        return node.name if node.delay == 1 else f"ago({node.name}, {node.delay})"
    if node.kind in ("parameter", "noise"):
        return node.name
    inner = [write(argument, names, top=False) for argument in node.arguments]
    if node.kind == "product":
        return f"U.{node.name}({inner[0]})"
    if node.kind == "norm":
        return f"norm({inner[0]})"
    return OPERATIONS[node.kind].text.format(*_bracketed(node, inner, names, "({})"))


_GREEK = set("alpha beta gamma delta epsilon eta theta lambda mu rho sigma tau phi omega".split())  # noqa: SIM905


def _symbol(name: str) -> str:
    """A name as a LaTeX symbol: `alpha` is α, `b_i` is b with subscript, longer words are upright."""
    head, _, tail = name.partition("_")
    head = f"\\{head}" if head in _GREEK else head if len(head) == 1 else rf"\mathrm{{{head}}}"
    return rf"{head}_{{\mathrm{{{tail}}}}}".replace("_{\\mathrm{}}", "") if tail else head


def _at(symbol: str, moment: str) -> str:
    return f"{{{symbol}}}^{{({moment})}}"


def write_latex(node: Node, names: Mapping[Node, str] | None = None, *, top: bool = True) -> str:
    """The node as a LaTeX formula with time as superscript."""
    names = names or {}
    if not top and node in names:
        return _at(_symbol(names[node].rstrip("'")), "t")
    if node.kind == "constant":
        return f"{node.value:g}"
    if node.kind == "drive":
        return rf"W_{{\mathrm{{{node.name}}}}} {_at('x', 't')} + b_{{\mathrm{{{node.name}}}}}"
    if node.kind == "state":
        return _at(_symbol(node.name), f"t-{node.delay}")
    if node.kind == "parameter":
        return _symbol(node.name)
    if node.kind == "noise":
        return _at(_symbol(node.name), "t")
    inner = [write_latex(argument, names, top=False) for argument in node.arguments]
    if node.kind == "product":
        simple = node.arguments[0].kind == "state" or node.arguments[0] in names
        return rf"U_{{\mathrm{{{node.name}}}}} " + (inner[0] if simple else rf"\left({inner[0]}\right)")
    if node.kind == "norm":
        return rf"\operatorname{{norm}}({inner[0]})"
    return OPERATIONS[node.kind].latex.format(*_bracketed(node, inner, names, r"\left({}\right)", latex=True))


def _bracketed(node: Node, inner: list[str], names: Mapping[Node, str], bracket: str, latex: bool = False) -> list[str]:
    outer = OPERATIONS[node.kind].precedence
    if outer == 9:  # written as a call: its own brackets do
        return inner
    result = []
    for place, (argument, text) in enumerate(zip(node.arguments, inner, strict=True)):
        binds = OPERATIONS[argument.kind].precedence if argument.kind in OPERATIONS and argument not in names else 9
        if latex and argument.kind == "drive" and argument not in names:
            binds = 5  # written out as a sum
        same = argument.kind == node.kind or (node.kind == "add" and argument.kind == "subtract")
        associative = same and node.kind in ("add", "multiply", "and", "or")
        loose = binds < outer or (binds == outer and not associative and (place > 0 or node.kind == "power"))
        result.append(bracket.format(text) if loose or (argument.kind == "constant" and argument.value < 0) else text)
    return result


@dataclass(frozen=True)
class StateVariable:
    """A state of the cell. `depth` is how many steps back it is read: 1, unless the cell uses `ago`."""

    name: str
    depth: int = 1


@dataclass(frozen=True)
class Noise:
    """A random mask that the cell reads: `scale` with probability `chance`, else 0; when evaluating, its mean.

    `per` is `step` (drawn anew at each step) or `sequence` (one mask for all of time, as in variational dropout).
    """

    name: str
    chance: float
    scale: float
    per: str

    @property
    def mean(self) -> float:
        return self.chance * self.scale


@dataclass(frozen=True, eq=False)
class Group:
    """Products that read the same argument: one matrix product with their matrices stacked."""

    argument: Node
    products: tuple[Node, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(product.name for product in self.products)


@dataclass(frozen=True, eq=False)
class Graph:
    """A cell as data.

    - `states`: in the order of the cell's arguments; `updates[i]` is the next value of `states[i]`, `updates[0]` the output.
    - `nodes`: everything that the updates need, in the order in which it was written; arguments come first.
    - `drives`: the names of `x.NAME`, in the order of the rows of `W`.
    - `matrices`: the names of `U.NAME`, in the order of the rows of `U`.
    - `parameters`: per-unit parameters by name, with the declaration that the user wrote.
    - `gates`: the values that the equations give a name to, other than the states.
    - `bias`: first values of the drives' biases; `constraints`: what form a recurrent matrix is kept in.
    - `earlier`: the values of a name that was given several, one after the other, as in a loop.

    ```python
    graph = rc.find_cell("lstm").graph
    graph.drives, graph.matrices, [state.name for state in graph.states]
    ```
    """

    name: str
    states: tuple[StateVariable, ...]
    updates: tuple[Node, ...]
    nodes: tuple[Node, ...]
    drives: tuple[str, ...]
    matrices: tuple[str, ...]
    parameters: Mapping[str, Any]
    noises: Mapping[str, Noise]
    gates: Mapping[str, Node]
    stages: tuple[tuple[Group, ...], ...]
    bias: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)

    def depth(self, state: str) -> int:
        """How many of its earlier values are read."""
        return next(each.depth for each in self.states if each.name == state)

    @cached_property
    def is_linear(self) -> bool:
        """Whether the next state is affine in the state, given the inputs."""
        return all(_degree(update) <= 1 for update in self.updates)

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether each unit's next state depends on that unit's own state alone, so that the Jacobian is diagonal."""
        return not any(node.kind in ("product", "norm") and depends_on_state(node) for node in self.nodes)

    @cached_property
    def names(self) -> dict[Node, str]:
        """How nodes are called in the equations: gates by name, updates with a prime."""
        names = {node: name for name, node in self.gates.items() if node.kind != "constant"}
        names |= {
            update: f"{state.name}'"
            for state, update in zip(self.states, self.updates, strict=True)
            if update.kind not in LEAVES
        }
        return names

    @cached_property
    def written(self) -> dict[Node, str]:
        """What gets a line when the equations are written: what has a name, and long values that are used more than once, so that
        each is written once. Those go by the name that they had for a while, with a number."""
        written, taken = dict(self.names), set(self.names.values())
        uses = Counter(argument for node in self.nodes for argument in node.arguments)
        versions = {node: f"{name}_{k}" for name, nodes in self.earlier.items() for k, node in enumerate(nodes, 1)}
        sizes: dict[Node, int] = {}  # how many nodes a value's text has, where those with a line count as one
        for node in self.nodes:
            sizes[node] = 1 + sum(1 if argument in written else sizes[argument] for argument in node.arguments)
            if node not in written and uses[node] > 1 and sizes[node] > LONG:
                wish, k = versions.get(node, "v1"), 1
                while wish in taken:
                    k += 1
                    wish = f"v{k}"
                written[node] = wish
                taken.add(wish)
        return written

    @cached_property
    def _defined(self) -> list[tuple[Node, str]]:
        """The nodes with a line in the order in which they can be computed, then the updates that are mere copies."""
        rows = [(node, self.written[node]) for node in self.nodes if node in self.written]
        copies = [
            (u, f"{s.name}'")
            for s, u in zip(self.states, self.updates, strict=True)
            if self.names.get(u) != f"{s.name}'"
        ]
        return rows + copies

    def equations(self) -> list[str]:
        """One line for each named value, in the notation of the cell; a prime marks the next state."""
        lines = []
        for node, name in self._defined:
            own = {other: called for other, called in self.written.items() if other is not node or called != name}
            lines.append(f"{name} = {write(node, own, top=self.written.get(node) == name)}")
        return lines

    def latex(self) -> list[str]:
        """The same equations as LaTeX."""
        lines = []
        for node, name in self._defined:
            own = {other: called for other, called in self.written.items() if other is not node or called != name}
            body = write_latex(node, own, top=self.written.get(node) == name)
            lines.append(rf"{_at(_symbol(name.rstrip(chr(39))), 't')} &= {body}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.equations())

    @cached_property
    def chains(self) -> tuple[tuple[str, ...], ...]:
        """The states in groups that feed back on each other, each after the groups that it reads. A state without feedback is a
        group of its own."""
        reads = {
            state.name: {node.name for node in walk([update]) if node.kind == "state"}
            for state, update in zip(self.states, self.updates, strict=True)
        }
        reached = {name: set(names) for name, names in reads.items()}
        for middle in reads:  # everything that a state depends on, however far back
            for name in reads:
                if middle in reached[name]:
                    reached[name] |= reached[middle]
        groups: list[tuple[str, ...]] = []
        for name in sorted(reads, key=lambda name: len(reached[name] | {name})):
            together = tuple(
                other for other in reads if other == name or {name, other} <= reached[name] & reached[other]
            )
            if together not in groups:
                groups.append(together)
        return tuple(groups)

    @cached_property
    def obstacle_to_scan(self) -> str:
        """Why scans cannot compute all of time at once; empty where they can. No unit may read another, and each group of
        `chains` must be affine in its own states, given the inputs and the states of the groups before it."""
        if self.matrices:
            return "has recurrent products, so units wait for each other"
        if any(node.kind == "norm" for node in self.nodes):
            return "normalises over its units, so they wait for each other"
        updates = {state.name: update for state, update in zip(self.states, self.updates, strict=True)}
        if any(_degree(updates[name], group) > 1 for group in self.chains for name in group):
            return "is not linear in its state"
        return ""


def depends_on_state(node: Node) -> bool:
    return any(inner.kind == "state" for inner in walk([node]))


def _degree(root: Node, states: Collection[str] | None = None) -> int:
    """The degree of the node as a polynomial in these states, or in all: 0 free of them, 1 affine, 2 anything else."""
    degrees: dict[Node, int] = {}
    for node in walk([root]):
        inner = [degrees[argument] for argument in node.arguments]
        match node.kind:
            case "state":
                degree = int(states is None or node.name in states)
            case "drive" | "parameter" | "noise" | "constant":
                degree = 0
            case "add" | "subtract" | "negate" | "product":
                degree = max(inner)
            case "multiply":
                degree = min(2, sum(inner))
            case "divide":
                degree = inner[0] if inner[1] == 0 else 2
            case "where":
                degree = max(inner[1:]) if inner[0] == 0 else 2
            case _:
                degree = 2 if max(inner, default=0) else 0
        degrees[node] = degree
    return degrees[root]


def arrange(nodes: Iterable[Node]) -> tuple[tuple[Group, ...], ...]:
    """The products in stages: each stage needs only what earlier ones have computed; one group per argument."""
    level: dict[Node, int] = {}  # how many products lie on the longest path up to and including the node
    found: dict[int, dict[Node, list[Node]]] = {}
    for node in nodes:
        level[node] = max((level[argument] for argument in node.arguments), default=0)
        if node.kind == "product":
            level[node] += 1
            found.setdefault(level[node], {}).setdefault(node.arguments[0], []).append(node)
    return tuple(
        tuple(Group(argument, tuple(products)) for argument, products in groups.items())
        for _, groups in sorted(found.items())
    )


def named_blocks(values: Tensor, size: int) -> tuple[Tensor, ...]:
    """Blocks of `size` numbers along the last axis, as drives come; none of an empty one, where `split` gives an empty block."""
    return values.split(size, dim=-1) if values.shape[-1] else ()


def block(matrix: Tensor, names: tuple[str, ...], wanted: Iterable[str], size: int) -> Tensor:
    """The rows of `matrix` (blocks of `size` rows, one for each of `names`) that belong to `wanted`, without a copy
    where they are neighbours."""
    places = [names.index(name) for name in wanted]
    if places == list(range(places[0], places[0] + len(places))):
        return matrix[places[0] * size : (places[-1] + 1) * size]
    return torch.cat([matrix[place * size : (place + 1) * size] for place in places])
