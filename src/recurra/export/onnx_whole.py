"""Models that read something else than a sequence, in ONNX: feed-forward networks read examples, recursive ones read trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch

import torch
from onnx import GraphProto, TensorProto, ValueInfoProto, helper
from torch import Tensor, nn

from recurra.data.forest import balanced, make_forest
from recurra.export.onnx_nodes import OPERATORS, CellWeights, Nodes
from recurra.layers.tree import ChildSum, Composition, Fold, NAry, Plain, Sum
from recurra.models.feedforward import Activation, Convolutions, Feedforward, Layers, Polynomial, Radial
from recurra.models.tree import TreeClassifier

Trials = Iterator[tuple[dict[str, Tensor], Tensor]]
"""Inputs by name, and the logits that must come out of them."""


@singledispatch
def write_whole(model: nn.Module) -> GraphProto:
    """The model as a graph with one output, `logits`."""
    raise AssertionError(type(model))


def whole_trials(model: nn.Module) -> Trials:
    """What such a graph is compared with: the model itself."""
    draw = torch.Generator().manual_seed(0)
    if isinstance(model, Feedforward):
        for B in (1, 3, 8):
            x = torch.randn(B, *model.shape, generator=draw, dtype=model.output.weight.dtype)
            yield {"x": x}, model(x)
        return
    assert isinstance(model, TreeClassifier)
    size = model.embedding.num_embeddings
    forests = [make_forest([[-1]], [[0]])]
    for leaves in ([5], [2, 9, 1]):
        rows = [torch.randint(size, (each,), generator=draw) for each in leaves]
        forests.append(balanced(rows, inner=0))
    for forest in forests:
        yield {"tokens": forest.tokens, "parents": forest.parents}, model(forest)


def _finished(nodes: Nodes, logits: str, inputs: list[ValueInfoProto], rows: str, classes: int) -> GraphProto:
    nodes.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
    output = helper.make_tensor_value_info("logits", nodes.element, [rows, classes])
    return nodes.to_graph("predict", inputs, [output])


# -- feed-forward ----------------------------------------------------------------------------------------------------


@write_whole.register
def _(model: Feedforward) -> GraphProto:
    nodes = Nodes(model.output.weight.dtype)
    centred = nodes.add("Sub", "x", nodes.weight(model.scaling.mean, "mean"))
    x = nodes.add("Div", centred, nodes.weight(model.scaling.deviation, "deviation"))
    flat = isinstance(model.features, nn.Flatten)
    for part in [model.features] if flat else model.features.children():
        x = _FEATURES[type(part)](nodes, part, x)
    logits = nodes.linear(x, model.output.weight, model.output.bias)
    given = helper.make_tensor_value_info("x", nodes.element, ["B", *model.shape])
    return _finished(nodes, logits, [given], "B", model.output.out_features)


def _activated(nodes: Nodes, activation: Activation, x: str) -> str:
    return x if activation.name == "linear" else nodes.add(OPERATORS[activation.name], x)


def _layers(nodes: Nodes, part: Layers, x: str) -> str:
    for k, each in enumerate(part.maps):
        assert isinstance(each, nn.Linear)
        y = _activated(nodes, part.activation, nodes.linear(x, each.weight, each.bias))
        x = nodes.add("Add", x, y) if part.residual and k else y
    return x


def _convolutions(nodes: Nodes, part: Convolutions, x: str) -> str:
    for each in part.maps:
        assert isinstance(each, nn.Conv2d)
        assert each.bias is not None
        half = each.kernel_size[0] // 2
        weights = nodes.weight(each.weight, "kernel"), nodes.weight(each.bias, "bias")
        y = _activated(nodes, part.activation, nodes.add("Conv", x, *weights, pads=[half] * 4))
        x = nodes.add("Add", x, y) if part.residual and each.in_channels == each.out_channels else y
        if not isinstance(part.pool, nn.Identity):
            pool = "MaxPool" if isinstance(part.pool, nn.MaxPool2d) else "AveragePool"
            x = nodes.add(pool, x, kernel_shape=[2, 2], strides=[2, 2])
    return nodes.add("Flatten", x)


def _polynomial(nodes: Nodes, part: Polynomial, x: str) -> str:
    powers = nodes.add("Pow", nodes.add("Unsqueeze", x, nodes.whole(1)), nodes.weight(part.powers, "powers"))
    return nodes.add("ReduceProd", powers, axes=[-1], keepdims=0)


def _radial(nodes: Nodes, part: Radial, x: str) -> str:
    apart = nodes.add("Sub", nodes.add("Unsqueeze", x, nodes.whole(1)), nodes.weight(part.centres, "centres"))
    squares = nodes.add("ReduceSum", nodes.add("Mul", apart, apart), nodes.whole(-1), keepdims=0)
    return nodes.add("Exp", nodes.add("Mul", squares, nodes.weight(-0.5 * torch.exp(-2 * part.log_width), "width")))


_FEATURES: dict[type[nn.Module], Callable[..., str]] = {
    nn.Flatten: lambda nodes, part, x: nodes.add("Flatten", x),
    Layers: _layers,
    Convolutions: _convolutions,
    Polynomial: _polynomial,
    Radial: _radial,
}


# -- trees -----------------------------------------------------------------------------------------------------------


@write_whole.register
def _(model: TreeClassifier) -> GraphProto:
    """A loop from the last node to the first: children come after their parents, and so are known when they are read."""
    nodes, composition = Nodes(model.output.weight.dtype), model.tree.composition
    H, width = composition.hidden_size, composition.states * composition.hidden_size
    x = nodes.add("Gather", nodes.weight(model.embedding.weight, "table"), "tokens")
    count = nodes.add("Squeeze", nodes.add("Shape", "tokens"), nodes.whole(0))
    empty = nodes.add(
        "Expand", nodes.number(0.0), nodes.add("Concat", nodes.add("Shape", "tokens"), nodes.whole(width), axis=0)
    )
    with torch.no_grad():
        drives, compose = _COMPOSITIONS[type(composition)](nodes, composition, x)

        body = nodes.inner()
        turn, going, states = body.name("turn"), body.name("going"), body.name("states")
        node = body.add("Sub", body.add("Sub", count, body.add("Squeeze", nodes.whole(1), nodes.whole(0))), turn)
        place = body.add("Reshape", node, nodes.whole(1))
        found = body.add("NonZero", body.add("Equal", "parents", node))
        children = body.add("Gather", states, body.add("Squeeze", found, nodes.whole(0)))
        new = compose(body, body.add("Gather", drives, place), children)
        after = body.add("ScatterND", states, body.add("Unsqueeze", place, nodes.whole(1)), new)
        again = body.add("Identity", going)
    whole, truth = int(TensorProto.INT64), int(TensorProto.BOOL)
    info = helper.make_tensor_value_info
    loop = body.to_graph(
        "node",
        [info(turn, whole, []), info(going, truth, []), info(states, nodes.element, ["N", width])],
        [info(again, truth, []), info(after, nodes.element, ["N", width])],
    )
    last = nodes.add("Loop", count, "", empty, body=loop)
    logits = nodes.linear(nodes.split(last, [H] * composition.states)[0], model.output.weight, model.output.bias)
    given = [info(name, whole, ["N"]) for name in ("tokens", "parents")]
    return _finished(nodes, logits, given, "N", model.output.out_features)


Compose = Callable[[Nodes, str, str], str]
"""In the body of the loop, the node's drives `[1, GH]` and its children's states `[M, SH]` to its states `[1, SH]`."""


def _sum(nodes: Nodes, part: Sum, x: str) -> tuple[str, Compose]:
    weights, H = CellWeights(nodes, part.weights), part.hidden_size

    def compose(body: Nodes, drive: str, children: str) -> str:
        before = body.split(body.add("ReduceSum", children, body.whole(0), keepdims=1), [H] * part.states)
        return _joined(body, weights.step(body, drive, before))

    return nodes.linear(x, part.weights.W[:, : part.input_size], part.weights.b), compose


def _fold(nodes: Nodes, part: Fold, x: str) -> tuple[str, Compose]:
    weights, H, S = CellWeights(nodes, part.weights), part.hidden_size, part.states
    of_child = part.weights.W[:, part.input_size :]
    turned, end = nodes.weight(of_child.T, "of_child"), nodes.weight(of_child @ part.end, "end")

    def compose(body: Nodes, drive: str, children: str) -> str:
        read = body.add("MatMul", body.split(children, [H] * S)[0], turned)
        inner, info = body.inner(), helper.make_tensor_value_info
        turn, going, before = inner.name("turn"), inner.name("going"), inner.name("state")
        arriving = inner.add("Gather", read, inner.add("Reshape", turn, inner.whole(1)))
        new = weights.step(inner, inner.add("Add", drive, arriving), inner.split(before, [H] * S))
        names, again = _joined(inner, new), inner.add("Identity", going)
        whole, truth, shape = int(TensorProto.INT64), int(TensorProto.BOOL), [1, S * H]
        loop = inner.to_graph(
            "child",
            [info(turn, whole, []), info(going, truth, []), info(before, body.element, shape)],
            [info(again, truth, []), info(names, body.element, shape)],
        )
        rows = body.add("Slice", body.add("Shape", children), body.whole(0), body.whole(1))
        start = body.add("Expand", body.number(0.0), body.whole(1, S * H))
        last = body.add("Loop", body.add("Squeeze", rows, body.whole(0)), "", start, body=loop)
        return _joined(body, weights.step(body, body.add("Add", drive, end), body.split(last, [H] * S)))

    return nodes.linear(x, part.weights.W[:, : part.input_size], part.weights.b), compose


def _plain(nodes: Nodes, part: Plain, x: str) -> tuple[str, Compose]:
    turned = nodes.weight(part.U.T, "U")

    def compose(body: Nodes, drive: str, children: str) -> str:
        side_by_side = _slots(body, children, part.arity, part.hidden_size)
        return body.add("Tanh", body.add("Add", drive, body.add("MatMul", side_by_side, turned)))

    return nodes.linear(x, part.W, part.b), compose


def _child_sum(nodes: Nodes, part: ChildSum, x: str) -> tuple[str, Compose]:
    H = part.hidden_size
    inner, forget = nodes.weight(part.U[: 3 * H].T, "U"), nodes.weight(part.U[3 * H :].T, "U_f")

    def compose(body: Nodes, drive: str, children: str) -> str:
        h, c = body.split(children, [H, H])
        ours, theirs = body.split(drive, [3 * H, H])
        total = body.add("ReduceSum", h, body.whole(0), keepdims=1)
        gates = body.split(body.add("Add", ours, body.add("MatMul", total, inner)), [H] * 3)
        f = body.add("Sigmoid", body.add("Add", theirs, body.add("MatMul", h, forget)))
        kept = body.add("ReduceSum", body.add("Mul", f, c), body.whole(0), keepdims=1)
        return _lstm_end(body, gates, kept)

    return nodes.linear(x, part.W, part.b), compose


def _n_ary(nodes: Nodes, part: NAry, x: str) -> tuple[str, Compose]:
    H, K = part.hidden_size, part.arity
    turned = nodes.weight(part.U.T, "U")

    def compose(body: Nodes, drive: str, children: str) -> str:
        h, c = (_slots(body, each, K, H) for each in body.split(children, [H, H]))
        ours, theirs = body.split(drive, [3 * H, H])
        outer, forget = body.split(body.add("MatMul", h, turned), [3 * H, K * H])
        gates = body.split(body.add("Add", ours, outer), [H] * 3)
        f = body.add("Sigmoid", body.add("Add", body.add("Tile", theirs, body.whole(1, K)), forget))
        each = body.add("Reshape", body.add("Mul", f, c), body.whole(K, H))
        return _lstm_end(body, gates, body.add("ReduceSum", each, body.whole(0), keepdims=1))

    return nodes.linear(x, part.W, part.b), compose


def _slots(body: Nodes, children: str, arity: int, H: int) -> str:
    """The children's values side by side, zeros where there is no child: `[1, K H]`."""
    blank = body.add("Expand", body.number(0.0), body.whole(arity, H))
    padded = body.add("Slice", body.add("Concat", children, blank, axis=0), body.whole(0), body.whole(arity))
    return body.add("Reshape", padded, body.whole(1, arity * H))


def _lstm_end(body: Nodes, gates: list[str], kept: str) -> str:
    i, o, u = gates
    written = body.add("Mul", body.add("Sigmoid", i), body.add("Tanh", u))
    c = body.add("Add", written, kept)
    return _joined(body, [body.add("Mul", body.add("Sigmoid", o), body.add("Tanh", c)), c])


def _joined(body: Nodes, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else body.add("Concat", *parts, axis=-1)


_COMPOSITIONS: dict[type[Composition], Callable[..., tuple[str, Compose]]] = {
    Sum: _sum,
    Fold: _fold,
    Plain: _plain,
    ChildSum: _child_sum,
    NAry: _n_ary,
}
