"""States between calls: ended gradients, rows that begin anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from torch import Tensor, where

from recurra.types import State


def map_states(function: Callable[..., Tensor], *states: State) -> State:
    """A function of each tensor of a state, or of those of several states that stand at the same place."""
    return tuple(
        tuple(tuple(function(*each) for each in zip(*cells, strict=True)) for cells in zip(*layers, strict=True))
        for layers in zip(*states, strict=True)
    )


@overload
def detach(state: State) -> State: ...
@overload
def detach(state: State | None) -> State | None: ...
def detach(state: State | None) -> State | None:
    """The state as numbers: it goes on, gradients end. What truncated BPTT does between two chunks.

    ```python
    layer, state = rc.Recurrent("lstm", 3, 8), None
    for chunk in torch.randn(2, 60, 3).split(20, dim=1):
        trace = layer(chunk, state)
        trace.outputs.square().mean().backward()
        state = rc.detach(trace.final)
    ```
    """
    return None if state is None else map_states(Tensor.detach, state)


def replace_rows(state: State, first: State, rows: Tensor) -> State:
    """The state, with those batch rows of `first` in which `rows` (true or false, `[B]`) is true."""
    return map_states(
        lambda old, new: where(rows.view(-1, *[1] * (old.ndim - 1)), new.to(old.dtype), old), state, first
    )
