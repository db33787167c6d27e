"""What a linear recurrence is made of, read off a cell's equations.

`affine_form` writes a value as Σ a · state + b, with a and b free of those states. `transfer` makes a graph whose run over a
stretch of time gives the affine map from the states before it to those after it: the same equations from zero (the
offset), and beside them the linear part alone, from each unit vector (the columns of the matrix).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from recurra.cells.graph import Graph, Node, StateVariable, constant, make, operation, walk

ZERO = constant(0.0)


@dataclass(frozen=True, eq=False)
class Affine:
    """Σ `slopes[state]` · state + `offset`; states are nodes, so each delay of a state is one of its own."""

    slopes: dict[Node, Node]
    offset: Node


def affine_form(root: Node, states: Collection[str]) -> Affine:
    """The value as an affine function of these states. It must be one: `Graph.obstacle_to_scan` says so."""
    forms: dict[Node, Affine] = {}
    for node in walk([root]):
        inner = [forms[argument] for argument in node.arguments]
        if node.kind == "state" and node.name in states:
            forms[node] = Affine({node: constant(1.0)}, ZERO)
        elif not any(each.slopes for each in inner):
            forms[node] = Affine({}, node)
        else:
            forms[node] = _combine(node, inner)
    return forms[root]


def _combine(node: Node, inner: list[Affine]) -> Affine:
    """A node of which at least one argument depends on the states."""
    match node.kind:
        case "add" | "subtract" | "negate":
            parts = inner
        case "multiply":
            a, b = inner
            factor, varying = (a, b) if b.slopes else (b, a)
            slopes = {state: operation("multiply", factor.offset, slope) for state, slope in varying.slopes.items()}
            return Affine(slopes, operation("multiply", a.offset, b.offset))
        case "divide":
            parts, divisor = inner[:1], inner[1].offset
            slopes = {state: operation("divide", slope, divisor) for state, slope in parts[0].slopes.items()}
            return Affine(slopes, operation("divide", parts[0].offset, divisor))
        case "where":
            condition, parts = node.arguments[0], inner[1:]
            return Affine(
                {
                    state: operation("where", condition, *(each.slopes.get(state, ZERO) for each in parts))
                    for state in {**parts[0].slopes, **parts[1].slopes}
                },
                operation("where", condition, *(each.offset for each in parts)),
            )
        case _:
            raise AssertionError(f"{node.kind} is not affine in its arguments")
    slopes = {
        state: operation(node.kind, *(each.slopes.get(state, ZERO) for each in parts))
        for state in {state: None for each in parts for state in each.slopes}
    }
    return Affine(slopes, operation(node.kind, *(each.offset for each in parts)))


@dataclass(frozen=True, eq=False)
class Transfer:
    """A graph whose run gives the affine map of some states over a stretch of time; drives and parameters are the cell's.

    Its states are `given` (those of earlier chains, as they are), then the chain's own from zero (`offsets`), then column after
    column of its matrix: `columns[j]` holds the names of the states that begin as unit vector j, which is one of
    `components`: a state and how many steps before.
    """

    graph: Graph
    given: tuple[str, ...]
    offsets: tuple[str, ...]
    components: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=256)
def transfers(graph: Graph) -> tuple[Transfer, ...]:
    """Those of all chains that a later step reads, each after those that it needs."""
    read = _states_in(graph.updates)
    return tuple(transfer(graph, chain) for chain in graph.chains if read.issuperset(chain))


@lru_cache(maxsize=256)
def transfer(graph: Graph, chain: tuple[str, ...]) -> Transfer:
    """The transfer of one of `graph.chains`."""
    updates = {state.name: update for state, update in zip(graph.states, graph.updates, strict=True)}
    forms = {name: affine_form(updates[name], chain) for name in chain}
    components = tuple((name, delay) for name in chain for delay in range(1, graph.depth(name) + 1))
    taken = set(updates)
    columns, equations = [], {name: updates[name] for name in chain}
    depths = {name: graph.depth(name) for name in updates}
    for j, _ in enumerate(components):
        named = {name: _free(f"{name}_by_{j}", taken) for name in chain}
        for name in chain:
            total = ZERO
            for state, slope in forms[name].slopes.items():
                column = make("state", name=named[state.name], delay=state.delay)
                total = operation("add", total, operation("multiply", slope, column))
            equations[named[name]] = total
            depths[named[name]] = graph.depth(name)
        columns.append(tuple(named.values()))
    # what the coefficients read, and whatever that reads in turn
    given: tuple[str, ...] = ()
    wanted = _states_in(equations.values()) - equations.keys()
    while wanted - set(given):
        given = tuple(name for name in updates if name in wanted)
        wanted |= _states_in(updates[name] for name in given)
    equations = {**{name: updates[name] for name in given}, **equations}
    made = replace(
        graph,
        name=f"transfer of {graph.name}",
        states=tuple(StateVariable(name, depths[name]) for name in equations),
        updates=tuple(equations.values()),
        nodes=tuple(walk(equations.values())),
        gates={},
        earlier={},
    )
    return Transfer(made, given, chain, components, tuple(columns))


def _states_in(roots: Iterable[Node]) -> set[str]:
    return {node.name for node in walk(roots) if node.kind == "state"}


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
