"""What is computed when: one step of a cell, forward or backward, as passes over the units.

Elementwise values need only their own unit, but a product, or a mean within LayerNorm, needs a whole row of units
first. So a step is divided into passes: pass k computes what has k products or means on its longest path (its *level*).
Within a pass everything is elementwise; between passes values live in memory, each in a `Place`.

Invariant: a pass reads only what is in memory before the step, or what an earlier pass has written for all units. That
makes any order of units, and any division of them among vectors, threads or tiles, right. It holds because a whole-row
operation always raises the level, because its argument is written in the pass of the argument's own level, and because
a value that a later pass needs and cannot recompute elementwise gets a place in the pass that computes it.

What the forward run keeps for the backward run is the *tape*: of the values that the adjoint asks for, those that
cannot be recomputed elementwise from the states. A value takes the slot of a drive that no later pass reads, so the
tape is hardly ever larger than the drives alone; therefore a pass must read its drives before it stores to the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from recurra.cells.graph import Graph, Group, Node, make, walk
from recurra.engines.fused.adjoint import Lowered, derive, lower
from recurra.engines.fused.constant_folding import Folded, fold_constants


@dataclass(frozen=True)
class Place:
    """Where a value lives. `kind` is one of:

    - forward: `tape` (slot), `state` (name, delay), `next` (name), `parameter` (name), `noise` (name);
    - results of products: `tile` (group, output) within their pass; of means: `mean` (number);
    - between passes: `row` (number), for arguments of products and values that a later pass needs;
    - backward: `adjoint` (name), `gradient` (slot), `carry` (name, delay), `parameter_gradient` (number),
      `argument` (number).
    """

    kind: str
    name: str = ""
    number: int = 0
    part: int = 0


@dataclass(frozen=True, eq=False)
class Product:
    """Products of one argument in one pass: `K` rows of weights in units of H, one output for each of `nodes`."""

    number: int
    source: Place
    blocks: int
    nodes: tuple[Node, ...]

    @property
    def is_transposed(self) -> bool:
        """Whether it is one of the backward run, which multiplies by Uᵀ and has one output."""
        return self.nodes[0].kind == "back"

    def inputs(self, H: int) -> int:
        """How many numbers each output is a sum over."""
        return self.blocks * H if self.is_transposed else H


@dataclass(frozen=True, eq=False)
class Pass:
    """One sweep over units: the products that open it, and what it writes where."""

    products: tuple[Product, ...]
    stores: tuple[tuple[Node, Place], ...]
    means: tuple[int, ...]  # finished by this pass


@dataclass(frozen=True, eq=False)
class Step:
    """The passes of one step. `find(node, k)` is the place from which pass k reads the node, or None: compute it."""

    passes: tuple[Pass, ...]
    find: Callable[[Node, int], Place | None]
    rows: int
    means: int  # over units: LayerNorm and its derivative have them

    @property
    def products(self) -> list[Product]:
        return [product for each in self.passes for product in each.products]


WHOLE_ROW = ("product", "back", "mean")


def schedule(
    outputs: Iterable[tuple[Node, Place]],
    given: Callable[[Node], Place | None],
    groups: Iterable[tuple[tuple[Node, ...], Node | None, Place | None]],
) -> Step:
    """Divide a step into passes.

    - `outputs`: what must be written, and where.
    - `given`: the place of a value that is in memory from the start.
    - `groups`: for each group of products its nodes and its argument, or (backward) the place where the argument is put.
    """
    outputs = list(outputs)
    groups = list(groups)
    level: dict[Node, int] = {}
    needed = walk([node for node, _ in outputs], lambda node: given(node) is not None)
    for node in needed:
        if given(node) is not None or node.kind == "constant":
            level[node] = 0
        else:
            inner = max((level[argument] for argument in node.arguments), default=0)
            level[node] = inner + (node.kind in WHOLE_ROW)

    top = max(level.values(), default=0)
    essential: list[list[tuple[Node, Place]]] = [[] for _ in range(top + 1)]
    homes: dict[Node, Place] = {}
    means = {node: k for k, node in enumerate(n for n in needed if n.kind == "mean" and given(n) is None)}
    rows = 0

    def new_row() -> Place:
        nonlocal rows
        rows += 1
        return Place("row", number=rows - 1)

    # whole rows that products and means wait for
    sources: list[Place] = []
    for nodes, argument, place in groups:
        if not any(node in level for node in nodes):
            sources.append(Place("row"))
            continue
        if argument is not None:
            # a drive lies in memory without its bias, so it is put into a row like any computed argument
            place = given(argument) if argument.kind == "state" else homes.get(argument)
            if place is None:
                place = homes[argument] = new_row()
                essential[level[argument]].append((argument, place))
        assert place is not None
        sources.append(place)
    for node, number in means.items():
        essential[level[node.arguments[0]]].append((node.arguments[0], Place("mean", number=number)))
    waits = {argument for node in needed if node.kind == "back" and given(node) is None for argument in node.arguments}
    for node, place in outputs:
        if place.kind == "gradient" and node in waits:
            essential[level[node]].append((node, place))

    # everything else is written in the pass that computes it; what needs no product joins the first pass that exists
    first = 0 if top == 0 or essential[0] else 1
    stores: list[list[tuple[Node, Place]]] = [list(each) for each in essential]
    for node, place in outputs:
        if (node, place) not in essential[level[node]]:
            stores[max(level[node], first)].append((node, place))
            if place.kind in ("tape", "next", "gradient"):
                homes.setdefault(node, place)

    def read(node: Node, k: int) -> Place | None:
        place = given(node)
        if place is not None:
            return place
        if node.kind == "mean":
            return Place("mean", number=means[node]) if level[node] <= k else None
        if level[node] < k and level[node] > 0:
            return homes.get(node)
        if node.kind in ("product", "back") and level[node] == k:
            group = next(g for g, (nodes, _, _) in enumerate(groups) if node in nodes)
            return Place("tile", number=group, part=groups[group][0].index(node))
        return None

    # values that a later pass needs and that have no place yet; conditions are no numbers and are recomputed
    for k in range(top, 0, -1):
        stack, seen = [node for node, _ in stores[k]], set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or read(node, k) is not None:
                continue
            seen.add(node)
            if 0 < level[node] < k and not node.is_condition:
                homes[node] = new_row()
                stores[level[node]].append((node, homes[node]))
            else:
                stack.extend(node.arguments)

    passes = []
    for k in range(first, top + 1):
        opened = tuple(
            Product(g, sources[g], len(nodes) if nodes[0].kind == "product" else len(nodes[0].arguments), nodes)
            for g, (nodes, _, _) in enumerate(groups)
            if any(level.get(node) == k for node in nodes)
        )
        done = tuple(place.number for _, place in stores[k] if place.kind == "mean")
        passes.append((k, Pass(opened, tuple(stores[k]), done)))
    numbers = {index: k for index, (k, _) in enumerate(passes)}
    return Step(tuple(each for _, each in passes), lambda node, index: read(node, numbers[index]), rows, len(means))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything about a cell that the printers and the engine need; `graph` is the cell's after constant folding.

    - `slots`: the width of the tape in units of H, drives first.
    - `gradients`: the width of the gradient buffer; drives first, then what products need of their own.
    - `places[k]`: the first gradient slot of group k. `arguments[k]`: the number of its argument buffer, or None where the
      argument is a state.
    - `accumulated`: what the backward run sums over time and batch rows: `("bias", drive)` and `("parameter", name)`.
    """

    folded: Folded
    lowered: Lowered
    forward: Step
    backward: Step
    slots: int
    gradients: int
    places: tuple[int, ...]
    arguments: tuple[int | None, ...]
    accumulated: tuple[tuple[str, str], ...]

    @property
    def graph(self) -> Graph:
        return self.lowered.graph

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.lowered.groups


@lru_cache(maxsize=256)
def plan(graph: Graph) -> Plan:
    """The plan of a cell's graph. Constants are folded here and nowhere else, so that every reader sees the same equations."""
    folded = fold_constants(graph)
    graph = folded.graph
    lowered = lower(graph)
    adjoint = derive(lowered)

    # the backward run's outputs: adjoints of drives and products, of states and of parameters, and arguments of products
    zero = make("constant")
    drives = [adjoint.drives.get(name, zero) for name in graph.drives]
    slots: list[Node] = list(drives)
    places = []
    for products in adjoint.products:
        places.append(_find_run(slots, products))
        slots[places[-1] :] = slots[places[-1] :] or list(products)
    outputs = [(node, Place("gradient", number=k)) for k, node in enumerate(slots)]
    accumulated = [("bias", name) for name in graph.drives] + [("parameter", name) for name in graph.parameters]
    sums = {
        **{("bias", n): a for n, a in adjoint.drives.items()},
        **{("parameter", n): a for n, a in adjoint.parameters.items()},
    }
    for k, key in enumerate(accumulated):
        if key in sums:
            outputs.append((sums[key], Place("parameter_gradient", number=k)))
    for state in graph.states:  # the oldest value first: it is set, the younger ones are added to
        for delay in range(state.depth, 0, -1):
            value = adjoint.states.get((state.name, delay), zero)
            if value is not zero or delay == state.depth:
                outputs.append((value, Place("carry", state.name, delay)))
    arguments: list[int | None] = []
    known: dict[Node, int] = {}
    for group in lowered.groups:
        arguments.append(None if group.argument.kind == "state" else known.setdefault(group.argument, len(known)))
    outputs += [(node, Place("argument", number=k)) for node, k in known.items()]

    kept = _choose_tape(outputs, lowered, graph)
    tape, width = _place_tape(kept, lowered)
    forward = schedule_forward(
        lowered, [(node, Place("tape", number=slot)) for node, slot in tape.items() if node.kind != "drive"]
    )

    back_groups = [
        ((make("back", *products, name=str(k)),), None, Place("gradient", number=places[k]))
        for k, products in enumerate(adjoint.products)
    ]
    backward = schedule(outputs, _given_backward(graph, lowered, tape), back_groups)
    return Plan(
        folded, lowered, forward, backward, width, len(slots), tuple(places), tuple(arguments), tuple(accumulated)
    )


def schedule_forward(lowered: Lowered, tape: Iterable[tuple[Node, Place]] = ()) -> Step:
    """The step from states to next states, and what of it is kept: nothing, where no backward run follows."""
    graph = lowered.graph
    nexts = [(update, Place("next", state.name)) for state, update in zip(graph.states, lowered.updates, strict=True)]
    groups = [(group.products, group.argument, None) for group in lowered.groups]
    return schedule([*nexts, *tape], _given_forward(graph), groups)


def _find_run(slots: list[Node], wanted: tuple[Node, ...]) -> int:
    """Where `wanted` stands in `slots` as neighbours, or the end."""
    for start in range(len(slots) - len(wanted) + 1):
        if all(a is b for a, b in zip(slots[start:], wanted, strict=False)):
            return start
    return len(slots)


def _given_forward(graph: Graph) -> Callable[[Node], Place | None]:
    def given(node: Node) -> Place | None:
        if node.kind == "drive":
            return Place("tape", number=graph.drives.index(node.name))
        if node.kind == "state":
            return Place("state", node.name, node.delay)
        if node.kind in ("parameter", "noise"):
            return Place(node.kind, node.name)
        return None

    return given


def _given_backward(graph: Graph, lowered: Lowered, tape: dict[Node, int]) -> Callable[[Node], Place | None]:
    updates = {
        update: Place("next", state.name)
        for state, update in zip(graph.states, lowered.updates, strict=True)
        if update.arguments
    }

    def given(node: Node) -> Place | None:
        if node in tape:
            return Place("tape", number=tape[node])
        if node in updates:
            return updates[node]
        if node.kind == "state":
            return Place("state", node.name, node.delay)
        if node.kind in ("parameter", "noise", "adjoint"):
            return Place(node.kind, node.name)
        return None

    return given


def _choose_tape(outputs: list[tuple[Node, Place]], lowered: Lowered, graph: Graph) -> list[Node]:
    """The forward values to keep: those the adjoint reads and that cannot be had from states and other kept values."""
    forward = set(lowered.nodes)
    available = _given_backward(graph, lowered, {})
    kept: dict[Node, int] = {}

    def asked(node: Node) -> bool:
        return node in forward and node.kind != "constant" and not node.is_condition

    # the outermost forward values within the adjoint's equations
    wanted = {node for node in walk([node for node, _ in outputs], asked) if asked(node)}
    at_hand: dict[Node, bool] = {}
    for node in lowered.nodes:
        by_itself = available(node) is not None or node.kind == "constant"
        derived = node.kind not in (*WHOLE_ROW, "drive") and bool(node.arguments)
        at_hand[node] = by_itself or (derived and all(at_hand[argument] for argument in node.arguments))
        if node in wanted and not at_hand[node]:
            kept[node] = 0
            at_hand[node] = True
    return list(kept)


def _place_tape(kept: list[Node], lowered: Lowered) -> tuple[dict[Node, int], int]:
    """A slot for each kept value: that of a drive which no later pass reads, or a new one."""
    graph = lowered.graph
    trial = [(node, Place("tape", number=-1 - k)) for k, node in enumerate(kept) if node.kind != "drive"]
    step = schedule_forward(lowered, trial)
    last_read = dict.fromkeys(graph.drives, 0)
    written: dict[Node, int] = {}
    for index, each in enumerate(step.passes):
        for node in walk([node for node, _ in each.stores], lambda n, index=index: step.find(n, index) is not None):  # type: ignore[misc]
            if node.kind == "drive":
                last_read[node.name] = max(last_read[node.name], index)
        for node, place in each.stores:
            if place.kind == "tape":
                written[node] = index
    slots: dict[Node, int] = {node: graph.drives.index(node.name) for node in kept if node.kind == "drive"}
    free = [k for k in range(len(graph.drives)) if k not in slots.values()]
    width = len(graph.drives)
    for node in kept:
        if node in slots:
            continue
        fitting = [k for k in free if last_read[graph.drives[k]] <= written[node]]
        if fitting:
            slots[node] = fitting[0]
            free.remove(fitting[0])
        else:
            slots[node] = width
            width += 1
    return slots, width
