"""The backward equations of a cell, derived from its graph: never written by hand for a cell.

The adjoint of a value is ∂L/∂value. Reverse accumulation visits the values of one step from the last to the first; each
passes its adjoint on to its arguments, times the partial derivatives that its operation declares. The result is made of
the same nodes as the cell, with two kinds more: `adjoint` (what arrives at a next state) and `back` (Uᵀ times the
adjoints of a group of products, summed: what arrives at the group's argument). So the backward step is scheduled,
lowered and printed as the forward step is.

Invariant: when a value is visited its adjoint is complete, since all that use it come later in the order of the
equations. For the argument of a group of products this includes the products, which is why they pass their adjoints on
together, at that moment. Adjoints of drives, parameters and states are what is left at the leaves; sums over time are
the printers' business.
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


def layer_norm(v: Node, gain: Node) -> Node:
    """LayerNorm (Ba et al. 2016): gain · (v − mean v) / √(mean (v − mean v)² + ε), means over the units of one batch row.

    This is all that the fused engine knows of it. Its derivative follows from that of each operation, and of `mean`:
    every unit has the same share in it, so the adjoint of what a mean is taken of is the mean of the adjoint.
    """
    centred = operation("subtract", v, make("mean", v))
    variance = operation("add", make("mean", operation("multiply", centred, centred)), constant(NORM_EPSILON))
    return operation("multiply", gain, operation("divide", centred, operation("sqrt", variance)))


def lower(graph: Graph) -> Lowered:
    """The graph without `norm`."""
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        arguments = tuple(new[argument] for argument in node.arguments)
        if node.kind == "norm":
            new[node] = layer_norm(arguments[0], make("parameter", name=node.name))
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
        if node.kind == "mean":
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
    """adjoint · partial; a partial that is 1 or 0 by condition chooses instead of multiplying, so that 0 · inf cannot arise."""
    if partial.kind == "where":
        condition, a, b = partial.arguments
        zero, one = constant(0.0), constant(1.0)
        if a is one and b is zero:
            return operation("where", condition, adjoint, zero)
        if a is zero and b is one:
            return operation("where", condition, zero, adjoint)
    return operation("multiply", adjoint, partial)
