"""The state that layers start from, made of a vector: tanh(A c), a part for each state of each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.cells.graph import walk
from recurra.cells.notation import Cell
from recurra.layers.recurrent import Recurrent
from recurra.types import CellState, Float, State


class FirstState(nn.Linear):
    """A map from a vector of `size` numbers to the first state of some layers of one direction.

    A state that no input moves, such as a clock, starts as it always does.
    """

    def __init__(self, size: int, layers: Recurrent):
        self.moved = [moved_states(cell) for cell in layers.cells]
        sizes = (
            state.depth * H
            for cell, H, moved in zip(layers.cells, layers.hidden_sizes, self.moved, strict=True)
            for state, is_moved in zip(cell.graph.states, moved, strict=True)
            if is_moved
        )
        super().__init__(size, sum(sizes))

    def state(self, vector: Float[Tensor, "B C"], layers: Recurrent) -> State:
        """The state of those layers, for each row."""
        left = torch.tanh(self(vector))

        def filled(state: CellState, moved: list[bool]) -> CellState:
            nonlocal left
            made = list(state)
            for k, old in enumerate(state):
                if moved[k]:
                    taken, left = left.tensor_split([old[0].numel()], dim=-1)
                    made[k] = taken.view_as(old).to(old)
            return tuple(made)

        initial = layers.initial_state(len(vector))
        return tuple((filled(layer[0], moved),) for layer, moved in zip(initial, self.moved, strict=True))


def moved_states(cell: Cell) -> list[bool]:
    """Which states of the cell depend on what is read."""
    return [any(node.kind == "drive" for node in walk([update])) for update in cell.graph.updates]
