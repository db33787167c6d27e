"""The state that layers start from, made of a vector: tanh(A c), a part for each state of each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.cells.graph import walk
from recurra.layers.recurrent import Recurrent
from recurra.types import CellState, Float, State


class FirstState(nn.Linear):
    """A map from a vector of `size` numbers to the first state of some layers of one direction.

    A state that no input moves, such as a clock, starts as it always does.
    """

    def __init__(self, size: int, layers: Recurrent):
        graph = layers.cell.graph
        self.moved = moved_states(layers)
        depth = sum(each.depth for each, moved in zip(graph.states, self.moved, strict=True) if moved)
        super().__init__(size, len(layers.layers) * depth * layers.hidden_size)

    def state(self, vector: Float[Tensor, "B C"], layers: Recurrent) -> State:
        """The state of those layers, for each row."""
        H = layers.hidden_size
        given = iter(torch.tanh(self(vector)).split(H, dim=-1))

        def filled(state: CellState) -> CellState:
            return tuple(
                torch.stack([next(given) for _ in range(old[0].numel() // H)], dim=1).view_as(old).to(old)
                if moved
                else old
                for old, moved in zip(state, self.moved, strict=True)
            )

        return tuple((filled(layer[0]),) for layer in layers.initial_state(len(vector)))


def moved_states(layers: Recurrent) -> list[bool]:
    """Which states of the cell depend on what is read."""
    return [any(node.kind == "drive" for node in walk([update])) for update in layers.cell.graph.updates]
