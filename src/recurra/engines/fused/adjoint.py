"""The backward equations of a cell, derived from its graph: never written by hand for a cell.

The adjoint of a value is ∂L/∂value. It is built from the same nodes as the cell, with two kinds more: `adjoint` (what
arrives at a next state) and `back` (Uᵀ times the adjoints of a group of products, summed: what arrives at the group's
argument).
"""

from __future__ import annotations

from dataclasses import dataclass

from recurra.cells.graph import NORM_EPSILON, Graph, Group, Node, arrange, constant, make, operation, walk
from recurra.cells.operations import OPERATIONS, Expression, Value


@dataclass(frozen=True, eq=False)
class Lowered:
    """A graph with `norm` written out as elementwise operations and the one reduction `mean`."""

    graph: Graph
    updates: tuple[Node, ...]
    nodes: tuple[Node, ...]  # in the order of the equations
    groups: tuple[Group, ...]
    names: dict[Node, str]  # what the equations call them


def lower(graph: Graph) -> Lowered:
    """norm(v) = gain · (v − mean v) / √(mean (v − mean v)² + ε)."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        arguments = tuple(new[argument] for argument in node.arguments)
        if node.kind == "norm":
            centred = operation("subtract", arguments[0], make("mean", arguments[0]))
            variance = operation("add", make("mean", operation("multiply", centred, centred)), constant(NORM_EPSILON))
            unit = operation("divide", centred, operation("sqrt", variance))
            new[node] = operation("multiply", make("parameter", name=node.name), unit)
        else:
            same = arguments == node.arguments
            new[node] = (
                node if same else make(node.kind, *arguments, name=node.name, value=node.value, delay=node.delay)
            )
    nodes = tuple(walk(new[node] for node in graph.nodes))
    groups = tuple(group for stage in arrange(nodes) for group in stage)
    names = {new[node]: name for node, name in graph.names.items()}
    return Lowered(graph, tuple(new[update] for update in graph.updates), nodes, groups, names)


class _Term(Expression):
    """A node on which the partial derivatives of the operations can be evaluated."""

    def __init__(self, node: Node):
        self.node = node

    def operate(self, name: str, arguments: tuple[Value, ...]) -> _Term:
        return _Term(operation(name, *(_node(argument) for argument in arguments)))


def _node(value: Value) -> Node:
    return value.node if isinstance(value, _Term) else constant(float(value))


@dataclass(frozen=True, eq=False)
class Adjoint:
    """∂L of everything that one step reads, as equations in what arrives at its next states.

    - `products[k]`: of each product of `lowered.groups[k]`, in order.
    - `drives`, `parameters`: by name; `states`: by name and delay, the part that this step adds.
    """

    drives: dict[str, Node]
    products: tuple[tuple[Node, ...], ...]
    states: dict[tuple[str, int], Node]
    parameters: dict[str, Node]


def derive(lowered: Lowered) -> Adjoint:
    """Reverse accumulation over one step."""
    total: dict[Node, Node] = {}
    products: dict[int, tuple[Node, ...]] = {}

    def arrive(node: Node, value: Node) -> None:
        total[node] = operation("add", total[node], value) if node in total else value

    for state, update in zip(lowered.graph.states, lowered.updates, strict=True):
        arrive(update, make("adjoint", name=state.name))

    for node in reversed(lowered.nodes):
        for k, group in enumerate(lowered.groups):
            if group.argument is node:  # all of its products lie behind us
                products[k] = tuple(total.get(product, constant(0.0)) for product in group.products)
                arrive(node, make("back", *products[k], name=str(k)))
        if node not in total:
            continue
        if node.kind == "mean":  # each unit's share in the mean is the same, so the adjoint is a mean again
            arrive(node.arguments[0], make("mean", total[node]))
        elif node.kind in OPERATIONS:
            _pass_on(node, total[node], arrive)

    leaves = [node for node in total if not node.arguments]
    return Adjoint(
        drives={node.name: total[node] for node in leaves if node.kind == "drive"},
        products=tuple(products[k] for k in range(len(lowered.groups))),
        states={(node.name, node.delay): total[node] for node in leaves if node.kind == "state"},
        parameters={node.name: total[node] for node in leaves if node.kind == "parameter"},
    )


def _pass_on(node: Node, adjoint: Node, arrive: object) -> None:
    assert callable(arrive)
    for argument, partial in zip(node.arguments, OPERATIONS[node.kind].partials, strict=True):
        if partial is None or argument.kind in ("constant", "noise"):
            continue
        arrive(argument, _times(adjoint, _node(partial(_Term(node), *(_Term(each) for each in node.arguments)))))


def _times(adjoint: Node, partial: Node) -> Node:
    """adjoint · partial; a partial that is 1 or 0 by condition chooses instead of multiplying, so that 0 · ∞ cannot arise."""
    if partial.kind == "where":
        condition, a, b = partial.arguments
        zero, one = constant(0.0), constant(1.0)
        if a is one and b is zero:
            return operation("where", condition, adjoint, zero)
        if a is zero and b is one:
            return operation("where", condition, zero, adjoint)
    return operation("multiply", adjoint, partial)
