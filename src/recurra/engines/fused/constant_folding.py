"""Constant folding: functions of per-unit parameters alone are computed once a run, by torch, not at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from recurra.cells.graph import LEAVES, Graph, Node, arrange, evaluate, make, walk

CHEAP = ("add", "subtract", "multiply", "negate")
"""What may as well be computed at every step."""


@dataclass(frozen=True, eq=False)
class Folded:
    """A graph whose parameters are the cell's own and some that are made of them: `made` says how."""

    graph: Graph
    made: Mapping[str, Node]

    def units(self, units: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The values of the graph's parameters, with gradients back to the cell's; those that are made, in float32 at least,
        as kernels compute: 1 − e^(−e^a) would not survive bfloat16."""
        exact = {name: value.to(torch.promote_types(value.dtype, torch.float32)) for name, value in units.items()}
        values = evaluate(self.made.values(), lambda node: exact[node.name], _no_product)
        return {name: values[self.made[name]] if name in self.made else units[name] for name in self.graph.parameters}


@lru_cache(maxsize=256)
def fold_constants(graph: Graph) -> Folded:
    """`cos(turn) * h` becomes `cos_turn * h`, where `cos_turn` is a parameter."""
    new: dict[Node, Node] = {}
    made: dict[str, Node] = {}
    taken = {*graph.parameters, *graph.gates, *(state.name for state in graph.states)}
    for node in _functions_of_parameters(graph):
        name = "_".join((node.kind, *(leaf.name for leaf in walk([node]) if leaf.kind == "parameter")))
        while name in taken:
            name += "_"
        taken.add(name)
        made[name], new[node] = node, make("parameter", name=name)
    if not made:
        return Folded(graph, {})
    for node in graph.nodes:
        arguments = (new[argument] for argument in node.arguments)
        new.setdefault(node, make(node.kind, *arguments, name=node.name, value=node.value, delay=node.delay))
    updates = tuple(new[update] for update in graph.updates)
    needed = set(walk(updates))
    nodes = tuple(dict.fromkeys(new[node] for node in graph.nodes if new[node] in needed))
    used = {node.name for node in nodes if node.kind in ("parameter", "norm")}
    folded = replace(
        graph,
        updates=updates,
        nodes=nodes,
        parameters={name: graph.parameters.get(name) for name in (*graph.parameters, *made) if name in used},
        gates={name: new[gate] for name, gate in graph.gates.items() if new[gate] in needed and new[gate].arguments},
        stages=arrange(nodes),
    )
    return Folded(folded, made)


def _functions_of_parameters(graph: Graph) -> list[Node]:
    """The largest of them that are worth it; conditions are none, since a parameter is a number."""
    fixed: set[Node] = set()
    for node in graph.nodes:
        elementwise = node.kind not in (*LEAVES, "norm", "product")
        if node.kind in ("parameter", "constant") or (elementwise and fixed.issuperset(node.arguments)):
            fixed.add(node)
    used = {argument for node in graph.nodes if node not in fixed for argument in node.arguments}.union(graph.updates)
    return [
        node
        for node in graph.nodes
        if node in fixed
        and node in used
        and not node.is_condition
        and any(each.kind not in (*LEAVES, *CHEAP) for each in walk([node]))
    ]


def _no_product(name: str, value: Tensor) -> Tensor:
    raise AssertionError(f"a parameter does not depend on the product {name}")
