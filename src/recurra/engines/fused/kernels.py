"""A compiled kernel of one cell and dtype, called with tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from recurra.cells.graph import Graph
from recurra.engines.fused.build import build
from recurra.engines.fused.cpp import emit, state_field, vectors
from recurra.engines.fused.fold import fold
from recurra.engines.fused.products import REALS, aligned
from recurra.engines.fused.stages import Plan, Program, plan
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Kernel:
    """`forward` and `backward` of a plan; `call` fills their argument structure by field name."""

    plan: Plan
    library: Any
    dtype: torch.dtype
    signatures: dict[str, tuple[str, ...]]
    width: int
    states: tuple[str, ...]  # what the structures call the states
    forward_vectors: tuple[int, ...]  # for each group, how many vectors of units its pass takes at once
    back_vectors: tuple[int, ...]

    def call(self, function: str, arguments: dict[str, Tensor | int | None]) -> None:
        names = self.signatures[function]
        values = (arguments[name] for name in names)
        fields = (ctypes.c_int64 * len(names))(
            *(0 if v is None else v if isinstance(v, int) else v.data_ptr() for v in values)
        )
        getattr(self.library, function)(ctypes.byref(fields))

    def workspace(self, function: str, lanes: int, H: int, threads: int) -> Tensor:
        size = getattr(self.library, f"{function}_workspace")(-(-lanes // threads) + 1, H)
        return torch.empty(size * threads, dtype=self.dtype)

    def pack(self, U: Float[Tensor, "GH H"], group: int, *, back: bool) -> Tensor:
        """The weights of one group as its products read them: forward by output units, backward by input units."""
        H = U.shape[1]
        G = len(U) // H
        q = (self.back_vectors if back else self.forward_vectors)[group]
        width = q * self.width
        outputs, inputs = (1, G * H) if back else (G, H)
        packed = aligned(-(-H // width) * inputs * outputs * width, self.dtype)
        strides = (0, 1, H) if back else (H * H, H, 1)
        self.library.pack_weights(U.data_ptr(), *strides, outputs, q, H, inputs, packed.data_ptr())
        return packed


@lru_cache(maxsize=256)
def kernel(graph: Graph, dtype: torch.dtype) -> Kernel:
    made = plan(graph)
    source = emit(made)
    library = build(source.text, REALS[dtype], f"the {REALS[dtype]} kernel of {graph.name}")
    long, address = ctypes.c_int64, ctypes.c_void_p
    library.pack_weights.argtypes = [address, *[long] * 7, address]
    library.pack_weights.restype = None
    for function in ("forward", "backward"):
        getattr(library, function).restype = None
        needs = getattr(library, f"{function}_workspace")
        needs.argtypes, needs.restype = [long, long], long
    library.vector_width.restype = long
    library.stream.argtypes = [address, address, long, address, address, long]
    library.stream.restype = None
    signatures = {"forward": source.forward, "backward": source.backward}
    states = tuple(state_field(state.name) for state in graph.states)
    sizes = (_vectors(made.forward, len(made.groups)), _vectors(made.backward, len(made.groups)))
    return Kernel(made, library, dtype, signatures, int(library.vector_width()), states, *sizes)


def _vectors(program: Program, groups: int) -> tuple[int, ...]:
    found = {product.number: vectors(each.products) for each in program.passes for product in each.products}
    return tuple(found.get(k, 1) for k in range(groups))


def source_of(graph: Graph) -> str:
    """The generated C++ of a cell, as it is compiled."""
    return emit(plan(fold(graph).graph)).text
