"""ONNX operators by name, and the equations of a cell written with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor

from recurra.cells.graph import NORM_EPSILON, Node
from recurra.layers.direction import Direction

OPSET = 17
"""The first with LayerNormalization; ONNX Runtime has read it since 1.12."""


class Nodes:
    """A graph that is being written. `inner` gives one for the body of a loop, which sees the names and weights outside."""

    def __init__(self, dtype: torch.dtype, outer: Nodes | None = None):
        self.dtype, self.outer = dtype, outer
        self.nodes: list[NodeProto] = []
        self.root: Nodes = self if outer is None else outer.root
        if outer is None:
            self.weights: list[TensorProto] = []
            self._numbers: dict[tuple[Any, ...], str] = {}
            self._taken = 0

    def inner(self) -> Nodes:
        return Nodes(self.dtype, self)

    def name(self, wish: str) -> str:
        self.root._taken += 1
        return f"{wish}_{self.root._taken}"

    @property
    def element(self) -> int:
        """ONNX's number of the type that is computed in."""
        return int(TensorProto.DOUBLE if self.dtype == torch.float64 else TensorProto.FLOAT)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """One operator with one result: its name."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [self.name(operator.lower()) for _ in range(results)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def weight(self, tensor: Tensor, wish: str = "weight") -> str:
        """A constant array, in the type that is computed in."""
        name = self.name(wish)
        array = tensor.detach().cpu().to(self.dtype).contiguous().numpy()
        self.root.weights.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        """A constant of the type that is computed in; each is kept once."""
        return self._kept(("real", value), lambda: torch.tensor(value, dtype=self.dtype).numpy())

    def whole(self, *values: int) -> str:
        """Whole numbers as a vector: axes, shapes, places."""
        return self._kept(("whole", *values), lambda: np.array(values, dtype=np.int64))

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> str:
        if key not in self.root._numbers:
            name = self.root._numbers[key] = self.name("constant")
            self.root.weights.append(numpy_helper.from_array(np.asarray(make()), name))
        return self.root._numbers[key]

    def split(self, x: str, sizes: Sequence[int]) -> list[str]:
        """Parts along the last axis."""
        return [x] if len(sizes) == 1 else self.several("Split", len(sizes), x, self.whole(*sizes), axis=-1)

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        y = self.add("MatMul", x, self.weight(weight.T))
        return y if bias is None else self.add("Add", y, self.weight(bias, "bias"))

    def to_graph(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> GraphProto:
        weights = self.weights if self.outer is None else []
        return helper.make_graph(self.nodes, name, list(inputs), list(outputs), initializer=weights)


OPERATORS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "negate": "Neg",
    "power": "Pow",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "equal": "Equal",
    "and": "And",
    "or": "Or",
    "not": "Not",
    "where": "Where",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "softplus": "Softplus",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "minimum": "Min",
    "maximum": "Max",
    "clamp": "Clip",
    "sin": "Sin",
    "cos": "Cos",
    "erf": "Erf",
}
"""ONNX's operator for each elementwise operation; `remainder` has none with the sign of the divisor."""


class CellWeights:
    """The weights of one layer as constants of a graph, the products of one argument stacked."""

    def __init__(self, nodes: Nodes, direction: Direction):
        graph, self.direction = direction.cell.graph, direction
        with torch.no_grad():
            self.parameters = {name: nodes.weight(value, name) for name, value in direction.unit_values().items()}
            self.products = {
                group: nodes.weight(torch.cat([direction.matrix(name) for name in group.names]).T, "U")
                for stage in graph.stages
                for group in stage
            }

    def step(self, nodes: Nodes, drives: str, before: Sequence[str]) -> list[str]:
        """The next states `[B, H]` from the drives `[B, GH]` and what is known of each state, `[B, H]` or `[B, K, H]`."""
        graph, H = self.direction.cell.graph, self.direction.hidden_size
        values: dict[Node, str] = {}
        parts = nodes.split(drives, [H] * len(graph.drives)) if graph.drives else []
        groups = {product: group for stage in graph.stages for group in stage for product in group.products}
        for node in graph.nodes:
            if node in values:
                continue
            arguments = [values[argument] for argument in node.arguments]
            match node.kind:
                case "constant":
                    values[node] = nodes.number(node.value)
                case "drive":
                    values[node] = parts[graph.drives.index(node.name)]
                case "parameter":
                    values[node] = self.parameters[node.name]
                case "noise":
                    values[node] = nodes.number(graph.noises[node.name].mean)
                case "state":
                    k = next(k for k, state in enumerate(graph.states) if state.name == node.name)
                    values[node] = _ago(nodes, before[k], graph.states[k].depth, node.delay)
                case "product":
                    group = groups[node]
                    product = nodes.add("MatMul", _full(nodes, arguments[0], before[0], H), self.products[group])
                    values |= zip(group.products, nodes.split(product, [H] * len(group.products)), strict=True)
                case "norm":
                    gain = self.parameters[node.name]
                    full = _full(nodes, arguments[0], before[0], H)
                    values[node] = nodes.add("LayerNormalization", full, gain, axis=-1, epsilon=NORM_EPSILON)
                case "remainder":
                    a, b = arguments
                    whole = nodes.add("Floor", nodes.add("Div", a, b))
                    values[node] = nodes.add("Sub", a, nodes.add("Mul", whole, b))
                case _:
                    values[node] = nodes.add(OPERATORS[node.kind], *arguments)
        like = _like(nodes, before[0], graph.states[0].depth)
        return [nodes.add("Expand", values[update], like) for update in graph.updates]


def _like(nodes: Nodes, state: str, depth: int) -> str:
    """The shape `[B, H]`, of a state."""
    shape = nodes.add("Shape", state)
    return shape if depth == 1 else nodes.add("Gather", shape, nodes.whole(0, 2), axis=0)


def _full(nodes: Nodes, v: str, state: str, H: int) -> str:
    """A value with all its units: one that is the same for every unit and row, such as a mask's mean, is not yet."""
    return nodes.add("Expand", v, nodes.whole(1, H))


def _ago(nodes: Nodes, history: str, depth: int, delay: int) -> str:
    if depth == 1:
        return history
    return nodes.add("Squeeze", nodes.add("Gather", history, nodes.whole(depth - delay), axis=1), nodes.whole(1))


def pushed(nodes: Nodes, history: str, depth: int, new: str) -> str:
    """What is known of a state after a step: the new value, after the last ones if the cell looks further back."""
    if depth == 1:
        return new
    latest = nodes.add("Slice", history, nodes.whole(1), nodes.whole(depth), nodes.whole(1))
    return nodes.add("Concat", latest, nodes.add("Unsqueeze", new, nodes.whole(1)), axis=1)
