"""One layer of generated code as a stream: weights packed once, every buffer allocated once, any number of steps."""

from __future__ import annotations

import ctypes

from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines.fused.kernels import kernel, rows
from recurra.engines.fused.sequence import whole_masks
from recurra.engines.protocol import Weights
from recurra.types import Float

BLOCK = 256
"""Steps whose drives are computed at once: enough to keep the product busy, little enough to stay in the cache."""


class Stream:
    """The state lives in this object's memory between calls; `state` reads and sets it."""

    def __init__(self, cell: Cell, weights: Weights, B: int):
        graph, dtype = cell.graph, weights.W.dtype
        made = kernel(graph, dtype)
        W, b, U = weights.W.contiguous(), weights.b.contiguous(), weights.U.contiguous()
        D, H = W.shape[1], U.shape[1]
        self._states = [W.new_zeros(state.depth + BLOCK, B, H) for state in graph.states]
        self._depths = [state.depth for state in graph.states]
        arguments = made.Forward(T=BLOCK, B=B, D=D, H=H, threads=1, W=W.data_ptr(), W_row=D, U=U.data_ptr(), U_row=H)
        arguments.bias = b.data_ptr()
        for k, state in enumerate(self._states):
            arguments.state[k] = state.data_ptr()
        units = [value.contiguous() for value in made.plan.folded.units(weights.units).values()]
        for k, value in enumerate(units):
            arguments.parameter[k] = value.data_ptr()
        masks = whole_masks(weights.noise, H)
        for k, name in enumerate(graph.noises):
            arguments.noise[k] = rows(masks[name].expand(BLOCK, B, H))
        memory = W.new_empty(made.kept_memory(arguments))
        scratch = W.new_empty(made.forward_scratch(arguments))
        arguments.memory, arguments.scratch = memory.data_ptr(), scratch.data_ptr()
        made.open_stream(arguments)
        self._alive = (arguments, memory, scratch, b, units, masks)  # the structure holds bare addresses
        self._reference = ctypes.byref(arguments)
        self._run = made.stream

    def run(self, x: int, out: int, steps: int) -> None:
        """Steps from the inputs at address `x` `[steps, B, D]` to the outputs at `out` `[steps, B, H]`."""
        self._run(self._reference, x, out, steps)

    @property
    def state(self) -> tuple[Float[Tensor, "_K B H"], ...]:
        return tuple(memory[:depth].clone() for memory, depth in zip(self._states, self._depths, strict=True))

    @state.setter
    def state(self, values: tuple[Tensor, ...]) -> None:
        for memory, depth, value in zip(self._states, self._depths, values, strict=True):
            memory[:depth] = value.detach()
