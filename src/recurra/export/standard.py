"""Cells that other tools have an operator for: Elman networks, LSTM, and the GRU with its reset before or after the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recurra.cells.graph import Graph, block
from recurra.cells.gru import gru
from recurra.cells.notation import Cell
from recurra.engines.vendor import KERNELS, Names, match_graphs
from recurra.layers.direction import Direction


@dataclass(frozen=True)
class Standard:
    """An operator as ONNX names it: the cell that it computes, and which of its gates has the other sign there.

    `names` are those that the cell's own parts have in the graph that was recognised.
    """

    operator: str
    pattern: Cell
    resets_after: bool = False
    activation: str = ""
    turned: str = ""
    names: Names | None = None

    def weights(self, direction: Direction, gates: Sequence[str]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W, U, the bias and the bias within the reset, in this order of gates."""
        graph, H, names = direction.cell.graph, direction.hidden_size, self.names
        assert names is not None
        drives, matrices = ([names[kind, gate] for gate in gates] for kind in ("drive", "product"))
        W = block(direction.W, graph.drives, drives, H)
        b = block(direction.b[:, None], graph.drives, drives, H)[:, 0]
        R = block(direction.recurrent_matrices(), graph.matrices, matrices, H)
        inner = torch.zeros_like(b)
        if self.resets_after:
            place = gates.index("n") * H
            inner[place : place + H] = direction.unit_values()[names["parameter", "b"]]
        signs = torch.cat([torch.full((H, 1), -1.0 if gate == self.turned else 1.0) for gate in gates]).to(W)
        return signs * W, signs * R, signs[:, 0] * b, inner


STANDARD = (
    Standard("RNN", KERNELS["elman"].pattern),
    Standard("RNN", KERNELS["elman(relu)"].pattern, activation="Relu"),
    Standard("LSTM", KERNELS["lstm"].pattern),
    Standard("GRU", KERNELS["gru_after"].pattern, resets_after=True),
    # here z lets the candidate in; elsewhere z keeps the state: σ(−a) = 1 − σ(a)
    Standard("GRU", gru, turned="z"),
)
OPERATORS = frozenset(standard.operator for standard in STANDARD)


def find_standard(graph: Graph) -> Standard | None:
    """The operator that computes a cell, whatever its parts are called there."""
    for standard in STANDARD:
        names = match_graphs(standard.pattern.graph, graph)
        if names is not None:
            return replace(standard, names=names)
    return None
