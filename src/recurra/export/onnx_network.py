"""A network in ONNX: one step of it with every state in and out, or whole sequences through `Scan`.

Layers whose cell ONNX has an operator for (`LSTM`, `GRU`, `RNN`) use it; any other cell is written from its graph.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import torch
from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from recurra.export.network import Network, StateSlot, Value, state_slots
from recurra.export.onnx_nodes import CellWeights, Nodes, pushed
from recurra.export.standard import OPERATORS, Standard, find_standard
from recurra.layers.direction import Direction

GATES = {"RNN": ("h",), "LSTM": ("i", "o", "f", "c"), "GRU": ("z", "r", "n")}
"""The order in which an operator takes its gates."""


def write_network(network: Network, name: str, *, steps: bool, operators: Container[str] = OPERATORS) -> GraphProto:
    """The network as a graph.

    - `steps`: whole sequences, `[B, T, …]` with `lengths`; otherwise one step, `[B, …]`.
    - `operators`: which of `LSTM`, `GRU` and `RNN` may be used; a layer that would need another is written out.
    """
    return _Writer(network, steps, operators).graph(name)


class _Writer:
    """Values by name, time first: `[T, B, size]`, or `[B, size]` in one step and for what belongs to a whole sequence."""

    def __init__(self, network: Network, steps: bool, operators: Container[str]):
        self.network, self.steps, self.operators = network, steps, operators
        self.nodes = Nodes(network.dtype)
        self.slots = state_slots(network)
        self.names: dict[Value, str] = {}
        self.lengths: dict[Value, str] = {}
        self.after: dict[str, str] = {}

    # -- the graph ---------------------------------------------------------------------------------------------------

    def graph(self, name: str) -> GraphProto:
        for value in self.network.values:
            known = [self.lengths[each] for each in value.arguments if each in self.lengths]
            self.lengths[value] = known[0] if known else "lengths"
            self.names[value] = self.write(value, [self.names[each] for each in value.arguments])
        outputs = []
        for called, value in self.network.outputs.items():
            self.deliver(self.batch_first(value), called)
            outputs.append(self.info(called, value))
        for slot in self.slots:
            self.deliver(self.after[slot.name], f"{slot.name}_out")
            outputs.append(self.state_info(slot, "out"))
        return self.nodes.to_graph(name, self.inputs(), outputs)

    def deliver(self, made: str, called: str) -> None:
        self.nodes.nodes.append(helper.make_node("Identity", [made], [called]))

    def inputs(self) -> list[ValueInfoProto]:
        found = [self.info(value.name, value) for value in self.network.inputs]
        if self.steps:
            found.append(helper.make_tensor_value_info("lengths", TensorProto.INT64, ["B"]))
        if any(value.kind == "memory" for value in self.network.inputs):
            found.append(helper.make_tensor_value_info("memory_lengths", TensorProto.INT64, ["B"]))
        return found + [self.state_info(slot, "in") for slot in self.slots]

    def info(self, name: str, value: Value) -> ValueInfoProto:
        if value.kind in ("tokens", "label"):
            shape = ["B", "T"] if value.kind == "tokens" and self.steps else ["B"]
            return helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        if value.kind == "memory":
            return helper.make_tensor_value_info(name, self.nodes.element, ["B", "S", value.size])
        steps = ["T" if value.factor == 1 else None] if self.steps and not value.is_whole else []
        return helper.make_tensor_value_info(name, self.nodes.element, ["B", *steps, value.size])

    def state_info(self, slot: StateSlot, way: str) -> ValueInfoProto:
        return helper.make_tensor_value_info(f"{slot.name}_{way}", self.nodes.element, ["B", *slot.shape])

    def batch_first(self, value: Value) -> str:
        if not self.steps or value.is_whole:
            return self.names[value]
        return self.nodes.add("Transpose", self.names[value], perm=[1, 0, 2])

    # -- values ------------------------------------------------------------------------------------------------------

    def write(self, value: Value, of: list[str]) -> str:
        add, weights = self.nodes.add, value.weights
        match value.kind:
            case "tokens":
                return add("Transpose", value.name, perm=[1, 0]) if self.steps else value.name
            case "numbers":
                return add("Transpose", value.name, perm=[1, 0, 2]) if self.steps else value.name
            case "label" | "vector" | "memory":
                return value.name
            case "embedding":
                return add("Gather", self.nodes.weight(weights["table"], "table"), of[0])
            case "linear":
                return self.nodes.linear(of[0], weights["weight"], weights.get("bias"))
            case "tanh" | "relu" | "sigmoid":
                return add(value.kind.capitalize(), of[0])
            case "add" | "multiply":
                total = of[0]
                for each in of[1:]:
                    total = add({"add": "Add", "multiply": "Mul"}[value.kind], total, each)
                return total
            case "concat":
                return add("Concat", *of, axis=-1)
            case "known":
                return add("Where", add("IsNaN", of[0]), self.nodes.number(0.0), of[0])
            case "missing":
                return add("Cast", add("IsNaN", of[0]), to=self.nodes.element)
            case "one":
                return add("Concat", self.filled(of[0], 1.0), of[0], axis=-1)
            case "spread":
                return add("Expand", of[0], self.shape_of_steps(value.size)) if self.steps else of[0]
            case "layer":
                return self.layer(value, of[0])
            case "attend":
                return self.attend(value, *of)
        return self.over_steps(value, of)

    def filled(self, like: str, number: float) -> str:
        """One number for each row, and each step."""
        rows = self.nodes.add("Slice", self.nodes.add("Shape", like), self.nodes.whole(0), self.nodes.whole(-1))
        shape = self.nodes.add("Concat", rows, self.nodes.whole(1), axis=0)
        return self.nodes.add("Expand", self.nodes.number(number), shape)

    def shape_of_steps(self, size: int) -> str:
        """`[T, B, size]`."""
        first = next(value for value in self.network.inputs if value.kind in ("tokens", "numbers"))
        shape = self.nodes.add("Shape", self.names[first])
        ends = self.nodes.whole(0), self.nodes.whole(2)
        return self.nodes.add("Concat", self.nodes.add("Slice", shape, *ends), self.nodes.whole(size), axis=0)

    def inside(self, values: str, lengths: str) -> str:
        """Which steps are true: `[T, B, 1]`."""
        add, whole = self.nodes.add, self.nodes.whole
        T = add("Squeeze", add("Slice", add("Shape", values), whole(0), whole(1)), whole(0))
        steps = add("Range", self.scalar(0), T, self.scalar(1))
        return add("Unsqueeze", add("Less", add("Unsqueeze", steps, whole(1)), lengths), whole(2))

    def scalar(self, value: int) -> str:
        return self.nodes.add("Squeeze", self.nodes.whole(value), self.nodes.whole(0))

    def over_steps(self, value: Value, of: list[str]) -> str:
        """What is computed from several steps."""
        add, whole, zero, lengths = self.nodes.add, self.nodes.whole, self.nodes.number(0.0), self.lengths[value]
        inside = self.inside(of[0], lengths)
        x = add("Where", inside, of[0], zero)
        lowest = self.nodes.number(torch.finfo(self.nodes.dtype).min)
        last = add("Sub", lengths, whole(1))
        match value.kind:
            case "convolution":
                kernel, half = value.weights["weight"], value.weights["weight"].shape[-1] // 2
                weights = self.nodes.weight(kernel, "kernel"), self.nodes.weight(value.weights["bias"], "bias")
                y = add("Conv", add("Transpose", x, perm=[1, 2, 0]), *weights, pads=[half, half])
                return add("Where", inside, add("Transpose", add("Relu", y), perm=[2, 0, 1]), zero)
            case "pool":
                factor = whole(value.factor)
                self.lengths[value] = add("Div", add("Add", last, factor), factor)
                options = {"kernel_shape": [value.factor], "strides": [value.factor], "ceil_mode": 1}
                y = add("MaxPool", add("Transpose", x, perm=[1, 2, 0]), **options)
                return add("Transpose", y, perm=[2, 0, 1])
            case "last":  # within the length, but not within the length less one
                before = self.inside(of[0], add("Max", last, whole(0)))
                return add("ReduceSum", add("Where", before, zero, self.up_to_last(x, last)), whole(0), keepdims=0)
            case "first":
                return add("Squeeze", add("Slice", x, whole(0), whole(1)), whole(0))
            case "mean":
                count = add("Cast", add("Max", lengths, whole(1)), to=self.nodes.element)
                return add("Div", add("ReduceSum", x, whole(0), keepdims=0), add("Unsqueeze", count, whole(1)))
            case "max":
                largest = add("ReduceMax", add("Where", inside, x, lowest), axes=[0], keepdims=0)
                some = add("Unsqueeze", add("Greater", lengths, whole(0)), whole(1))
                return add("Where", some, largest, zero)
            case "attention":
                shares = add("Softmax", add("Where", inside, of[1], lowest), axis=0)
                return add("ReduceSum", add("Mul", shares, x), whole(0), keepdims=0)
        raise AssertionError(value.kind)

    def up_to_last(self, x: str, last: str) -> str:
        """Values up to the last step; of a sequence without steps, the first."""
        end = self.nodes.add("Max", self.nodes.add("Add", last, self.nodes.whole(1)), self.nodes.whole(1))
        return self.nodes.add("Where", self.inside(x, end), x, self.nodes.number(0.0))

    def attend(self, value: Value, query: str, keys: str, memory: str) -> str:
        add, whole, weights = self.nodes.add, self.nodes.whole, value.weights
        if weights:
            asked = add("Unsqueeze", self.nodes.linear(query, weights["query"], weights["bias"]), whole(1))
            energies = self.nodes.linear(add("Tanh", add("Add", asked, keys)), weights["score"])
        else:
            turned = add("MatMul", keys, add("Unsqueeze", query, whole(2)))
            energies = add("Div", turned, self.nodes.number(value.arguments[1].size ** 0.5))
        steps = add("Range", self.scalar(0), add("Squeeze", self.count(keys), whole(0)), self.scalar(1))
        inside = add("Less", steps, add("Unsqueeze", "memory_lengths", whole(1)))
        masked = add("Where", add("Unsqueeze", inside, whole(2)), energies, self.nodes.number(-float("inf")))
        shares = add("Transpose", add("Softmax", masked, axis=1), perm=[0, 2, 1])
        return add("Squeeze", add("MatMul", shares, memory), whole(1))

    def count(self, keys: str) -> str:
        """How many steps the other sequence has."""
        return self.nodes.add("Slice", self.nodes.add("Shape", keys), self.nodes.whole(1), self.nodes.whole(2))

    # -- layers ------------------------------------------------------------------------------------------------------

    def layer(self, value: Value, x: str) -> str:
        direction = value.direction
        assert direction is not None
        slots = [slot for slot in self.slots if slot.layer is value]
        before = [f"{slot.name}_in" for slot in slots]
        standard = find_standard(direction.cell.graph)
        with torch.no_grad():
            if standard is not None and standard.operator in self.operators:
                y, after = self.operator(value, direction, standard, x, before)
            elif self.steps:
                y, after = self.scan(value, direction, x, before)
            else:
                drives = self.nodes.linear(x, direction.W, direction.b) if direction.cell.graph.drives else ""
                new = CellWeights(self.nodes, direction).step(self.nodes, drives, before)
                states = zip(before, direction.cell.graph.states, new, strict=True)
                y, after = new[0], [pushed(self.nodes, old, state.depth, made) for old, state, made in states]
        self.after |= {slot.name: made for slot, made in zip(slots, after, strict=True)}
        return y

    def operator(
        self, value: Value, direction: Direction, standard: Standard, x: str, before: Sequence[str]
    ) -> tuple[str, list[str]]:
        """A layer as one operator; `W`, `R` and `B` in the order of its gates."""
        add, whole = self.nodes.add, self.nodes.whole
        W, R, b, inner = standard.weights(direction, GATES[standard.operator])
        named = {"W": W, "R": R, "B": torch.cat([b, inner])}
        arrays = [self.nodes.weight(each[None], called) for called, each in named.items()]
        options: dict[str, Any] = {"activations": [standard.activation]} if standard.activation else {}
        if standard.operator == "GRU":
            options["linear_before_reset"] = int(standard.resets_after)
        lengths = ""
        if self.steps:
            lengths = add("Cast", self.lengths[value], to=TensorProto.INT32)
        else:
            x = add("Unsqueeze", x, whole(0))
        firsts = [add("Unsqueeze", each, whole(0)) for each in before]
        way = "reverse" if value.reverse else "forward"
        y, *last = self.nodes.several(
            standard.operator,
            1 + len(before),
            *(x, *arrays, lengths, *firsts),
            hidden_size=direction.hidden_size,
            direction=way,
            **options,
        )
        after = [add("Squeeze", each, whole(0)) for each in last]
        if not self.steps:
            return add("Squeeze", y, whole(0, 1)), after
        some = add("Unsqueeze", add("Greater", self.lengths[value], whole(0)), whole(1))
        kept = [add("Where", some, new, old) for new, old in zip(after, before, strict=True)]
        # the operators' own zeros past the end are not every runtime's
        inside = self.inside(x, self.lengths[value])
        return add("Where", inside, add("Squeeze", y, whole(1)), self.nodes.number(0.0)), kept

    def scan(self, value: Value, direction: Direction, x: str, before: Sequence[str]) -> tuple[str, list[str]]:
        """A layer as a loop over steps: the drives of all steps in one product, the states from step to step."""
        whole, lengths = self.nodes.whole, self.lengths[value]
        graph, H = direction.cell.graph, direction.hidden_size
        inside = self.inside(x, lengths)
        if value.reverse:
            x = self.reversed(x, lengths)
        drives = [self.nodes.linear(x, direction.W, direction.b)] if graph.drives else []

        body = self.nodes.inner()
        mask, drive = body.name("inside"), body.name("drive")
        old = [body.name(state.name) for state in graph.states]
        new = CellWeights(body, direction).step(body, drive, old)
        after = []
        for state, known, made in zip(graph.states, old, new, strict=True):
            true = body.add("Unsqueeze", mask, whole(1)) if state.depth > 1 else mask
            after.append(body.add("Where", true, pushed(body, known, state.depth, made), known))
        output = body.add("Where", mask, new[0], self.nodes.number(0.0))
        infos = [
            helper.make_tensor_value_info(each, self.nodes.element, ["B", *([s.depth] if s.depth > 1 else []), H])
            for each, s in zip(old, graph.states, strict=True)
        ]
        read = [helper.make_tensor_value_info(mask, TensorProto.BOOL, ["B", 1])]
        if drives:
            read.append(helper.make_tensor_value_info(drive, self.nodes.element, ["B", len(graph.drives) * H]))
        results = [helper.make_tensor_value_info(each, self.nodes.element, None) for each in (*after, output)]
        loop = body.to_graph(f"step_of_{value.name}", [*infos, *read], results)
        *final, y = self.nodes.several(
            "Scan", len(after) + 1, *before, inside, *drives, body=loop, num_scan_inputs=1 + len(drives)
        )
        return self.reversed(y, lengths) if value.reverse else y, final

    def reversed(self, x: str, lengths: str) -> str:
        return self.nodes.add("ReverseSequence", x, lengths, time_axis=0, batch_axis=1)
