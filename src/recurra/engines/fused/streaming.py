"""One layer of generated code as a stream: weights packed once, every buffer allocated once, any number of steps."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from recurra.cells.graph import block
from recurra.cells.notation import Cell
from recurra.engines.fused.fold import fold
from recurra.engines.fused.kernels import kernel
from recurra.engines.fused.products import pack
from recurra.engines.protocol import Weights
from recurra.types import Float

BLOCK = 256
"""Steps whose drives are computed at once: enough to keep the product busy, little enough to stay in the cache."""


class Stream:
    """The state lives in this object's memory between calls; `state` reads and sets it."""

    def __init__(self, cell: Cell, weights: Weights, lanes: int):
        folded, dtype = fold(cell.graph), weights.W.dtype
        graph = folded.graph
        self.kernel = kernel(graph, dtype)
        plan = self.kernel.plan
        D, H = weights.W.shape[1], weights.U.shape[1]
        self.input_size, self.size, self.lanes = D, H, lanes
        self._weights_x = pack(weights.W)
        self._states = [torch.zeros(state.depth + BLOCK, lanes, H, dtype=dtype) for state in graph.states]
        self._depths = [state.depth for state in graph.states]
        arguments: dict[str, Tensor | int | None] = {"T": BLOCK, "B": lanes, "H": H, "threads": 1, "lengths": None}
        arguments["workspace"] = self.kernel.workspace("forward", lanes, H, 1)
        arguments["tape"] = torch.empty(BLOCK, lanes, plan.slots * H, dtype=dtype)
        arguments["bias"] = weights.b.contiguous()
        arguments |= dict(zip(self.kernel.states, self._states, strict=True))
        for name, value in folded.units(weights.units).items():
            arguments[f"p_{name}"] = value.contiguous()
        for name, mask in weights.noise.items():
            arguments |= {f"n_{name}": mask.expand(1, 1, H).contiguous(), f"n_{name}_step": 0, f"n_{name}_lane": 0}
        for k, group in enumerate(plan.groups):
            arguments[f"weights_{k}"] = self.kernel.pack(
                block(weights.U, graph.matrices, group.names, H).contiguous(), k, back=False
            )
        names = self.kernel.signatures["forward"]
        values = [arguments[name] for name in names]
        self._alive = values  # the structure holds bare addresses
        self._fields = (ctypes.c_int64 * len(names))(
            *(0 if v is None else v if isinstance(v, int) else v.data_ptr() for v in values)
        )
        self._reference = ctypes.byref(self._fields)
        self._run = self.kernel.library.stream
        self._packed_address = self._weights_x.data_ptr()

    def run(self, x: int, out: int, steps: int) -> None:
        """Steps from the inputs at address `x` `[steps, lanes, D]` to the outputs at `out` `[steps, lanes, H]`."""
        self._run(self._reference, x, self.input_size, self._packed_address, out, steps)

    @property
    def state(self) -> tuple[Float[Tensor, "_K B H"], ...]:
        return tuple(memory[:depth].clone() for memory, depth in zip(self._states, self._depths, strict=True))

    @state.setter
    def state(self, values: tuple[Tensor, ...]) -> None:
        for memory, depth, value in zip(self._states, self._depths, values, strict=True):
            memory[:depth] = value
