"""Torch's own recurrent kernels (oneDNN, cuDNN), for graphs that are recognised as one of the cells they compute.

A cell is recognised by its equations, whatever its names: the graph is matched against those of `elman`, `lstm` and
`gru_after`, and the match says which of its matrices plays which part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from recurra.cells.elman import elman
from recurra.cells.graph import Graph, Node, block
from recurra.cells.gru_after import gru_after
from recurra.cells.lstm import lstm
from recurra.cells.notation import Cell
from recurra.engines.protocol import YES, Run, Support, Weights, no
from recurra.types import Float, Int, Shape

Names = dict[tuple[str, str], str]
"""Which name a leaf or product of the pattern has in the graph that matched: `("drive", "i") -> "input"`."""

_COMMUTES = ("add", "multiply", "minimum", "maximum", "equal", "and", "or")


@dataclass(frozen=True)
class Kernel:
    """One of torch's kernels: the cell that it computes, and the order in which it takes that cell's gates."""

    pattern: Cell
    gates: tuple[str, ...]
    run: Callable[..., tuple[Tensor, ...]]


KERNELS = {
    "elman": Kernel(elman, ("h",), torch._VF.rnn_tanh),
    "elman(relu)": Kernel(elman(activation="relu"), ("h",), torch._VF.rnn_relu),
    "lstm": Kernel(lstm, ("i", "f", "c", "o"), torch._VF.lstm),
    "gru_after": Kernel(gru_after, ("r", "z", "n"), torch._VF.gru),
}


def _match(pattern: Node, node: Node, names: Names) -> Iterator[Names]:
    """Every way to read `node` as `pattern`, each as the names that it takes."""
    if pattern.kind != node.kind or pattern.value != node.value or pattern.delay != node.delay:
        return
    if pattern.name:
        key = (pattern.kind, pattern.name)
        if names.get(key, node.name) != node.name:
            return
        if key not in names and any(k[0] == key[0] and taken == node.name for k, taken in names.items()):
            return
        names = {**names, key: node.name}
    orders = [node.arguments]
    if pattern.kind in _COMMUTES:
        orders.append(node.arguments[::-1])
    for arguments in orders:
        yield from _match_all(pattern.arguments, arguments, names)


def _match_all(patterns: tuple[Node, ...], nodes: tuple[Node, ...], names: Names) -> Iterator[Names]:
    if not patterns:
        yield names
        return
    for found in _match(patterns[0], nodes[0], names):
        yield from _match_all(patterns[1:], nodes[1:], found)


def match_graphs(pattern: Graph, graph: Graph) -> Names | None:
    """The names that the parts of `pattern` have in a graph that computes the same, or None."""
    if len(pattern.updates) != len(graph.updates) or any(state.depth > 1 for state in graph.states):
        return None
    fixed = {("state", a.name): b.name for a, b in zip(pattern.states, graph.states, strict=True)}
    return next(_match_all(pattern.updates, graph.updates, fixed), None)


@lru_cache(maxsize=256)
def recognise(graph: Graph) -> tuple[str, Names] | None:
    """The kernel that computes this graph and the parts its names play, or None."""
    for kernel, row in KERNELS.items():
        names = match_graphs(row.pattern.graph, graph)
        if names is not None:
            return kernel, names
    return None


class Vendor:
    name = "vendor"

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int:
        return 20

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support:
        found = recognise(cell.graph)
        if found is None:
            return no(
                f"torch has kernels for elman (tanh, relu), lstm and gru_after; the equations of {cell.name} are none of these"
            )
        if record and found[0] == "lstm":
            return no("torch's LSTM kernel does not give the cell state of each step, which record=True asks for")
        if device.type == "cpu" and dtype in (torch.float16, torch.bfloat16) and shape.H > 0:
            return no(f"torch's CPU kernels do not train in {dtype}")
        if device.type == "cuda" and torch.is_autocast_enabled("cuda") and dtype != torch.float16:
            return no(f"torch's autocast runs cuDNN's recurrent kernels in float16, and {dtype} was asked for")
        return YES

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "_K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run:
        found = recognise(cell.graph)
        assert found is not None  # supports() said so
        kernel, flat = KERNELS[found[0]], _flat_weights(cell.graph, weights, *found)
        initial = tuple(first.contiguous() for first in initial)
        state = initial if found[0] == "lstm" else initial[0]
        with warnings.catch_warnings():
            # our weights are parts of larger matrices, which cuDNN copies together at each call and warns about
            warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")
            return self._run(kernel, x, state, flat, initial, lengths, record)

    def _run(
        self,
        kernel: Kernel,
        x: Tensor,
        state: Tensor | tuple[Tensor, ...],
        flat: list[Tensor],
        initial: tuple[Tensor, ...],
        lengths: Tensor | None,
        record: bool,
    ) -> Run:
        if lengths is None:
            outputs, *final = kernel.run(x, state, flat, True, 1, 0.0, torch.is_grad_enabled(), False, False)
        else:
            outputs, final = self._run_packed(kernel, x, state, flat, lengths)
            began = (lengths > 0)[
                None, :, None
            ]  # torch packs no empty sequences: they ran one step, which is undone here
            final = [torch.where(began, last, first) for last, first in zip(final, initial, strict=True)]
        return Run(outputs, tuple(final), (outputs,) if record else None)

    @staticmethod
    def _run_packed(
        kernel: Kernel, x: Tensor, state: Tensor | tuple[Tensor, ...], flat: list[Tensor], lengths: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        state = tuple(s[:, order] for s in state) if isinstance(state, tuple) else state[:, order]
        data, *final = kernel.run(
            packed.data, packed.batch_sizes, state, flat, True, 1, 0.0, torch.is_grad_enabled(), False
        )
        padded, _ = pad_packed_sequence(PackedSequence(data, packed.batch_sizes, order, back), total_length=len(x))
        return padded, [last[:, back] for last in final]


def _flat_weights(graph: Graph, weights: Weights, kernel: str, names: Names) -> list[Tensor]:
    """W, U and the two biases in torch's order of gates."""
    H, gates = weights.U.shape[1], KERNELS[kernel].gates
    drives = [names["drive", gate] for gate in gates]
    products = [names["product", gate] for gate in gates]
    W = block(weights.W, graph.drives, drives, H)
    b = block(weights.b[:, None], graph.drives, drives, H)[:, 0]
    U = block(weights.U, graph.matrices, products, H)
    inner = torch.zeros_like(b)
    if kernel == "gru_after":  # the one bias that cannot be merged: it lies inside the reset
        inner = torch.cat([inner[: 2 * H], weights.units[names["parameter", "b"]]])
    return [W.contiguous(), U.contiguous(), b.contiguous(), inner]
