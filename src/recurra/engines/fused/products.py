"""The large products over all of time, on the same small kernel as the recurrence: it keeps close to the machine's peak
also at the narrow shapes that recurrent layers have."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recurra.engines.fused.build import build
from recurra.types import Float

REALS = {torch.float32: "float", torch.float64: "double"}
WORTH_A_THREAD = 500_000
"""Multiplications that a further thread must take over before it is woken."""


def threads_for(work: int, parts: int) -> int:
    """How many threads share `work` multiplications that can be cut into `parts`."""
    return max(1, min(torch.get_num_threads(), parts, work // WORTH_A_THREAD))


@lru_cache(maxsize=2)
def _library(dtype: torch.dtype) -> Any:
    source = Path(__file__).with_name("products.cpp").read_text()
    library = build(source, REALS[dtype], f"the {REALS[dtype]} products")
    long, address = ctypes.c_int64, ctypes.c_void_p
    library.panel_width.restype = long
    library.pack_matrix.argtypes = [address, long, long, long, long, address]
    library.multiply_rows.argtypes = [address, long, long, address, *[long] * 5, address, long, long]
    library.multiply_transposed.argtypes = [address, long, long, long, address, *[long] * 5, address, long]
    for function in (library.pack_matrix, library.multiply_rows, library.multiply_transposed):
        function.restype = None
    return library


def aligned(size: int, dtype: torch.dtype) -> Tensor:
    """Memory that starts at a whole vector."""
    memory = torch.empty(size + 16, dtype=dtype)
    return memory[(-memory.data_ptr() % 64) // memory.element_size() :]


def _rows(*tensors: Float[Tensor, "T B _"]) -> tuple[int, int, list[tuple[int, int, int]]]:
    """How to go through the rows of tensors `[T, B, ...]` whose last axis is contiguous: the longer of time and lanes inside.

    Returns the counts of inner and outer rows, and for each tensor its address and the two strides.
    """
    T, B = tensors[0].shape[:2]
    inner, outer = (0, 1) if T >= B else (1, 0)
    return max(T, B), min(T, B), [(each.data_ptr(), each.stride(inner), each.stride(outer)) for each in tensors]


def pack(weights: Float[Tensor, "O K"]) -> Tensor:
    """Weights as the products read them; any strides."""
    library = _library(weights.dtype)
    O, K = weights.shape
    width = library.panel_width()
    packed = aligned(-(-O // width) * width * K, weights.dtype)
    library.pack_matrix(weights.data_ptr(), weights.stride(0), weights.stride(1), O, K, packed.data_ptr())
    return packed


def times(rows: Float[Tensor, "T B K"], weights: Tensor, out: Float[Tensor, "T B O"], *, transposed: bool) -> None:
    """out = rows · weightsᵀ (`transposed`: weights are `[O, K]`) or rows · weights (`[K, O]`)."""
    K, O = rows.shape[2], out.shape[2]
    packed = pack(weights if transposed else weights.t())
    inner, outer, (source, target) = _rows(rows, out)
    threads = threads_for(inner * outer * K * O, inner * outer)
    _library(rows.dtype).multiply_rows(*source, *target, inner, outer, K, packed.data_ptr(), O, threads)


def gather(left: Float[Tensor, "T B A"], right: Float[Tensor, "T B C"]) -> Float[Tensor, "A C"]:
    """leftᵀ · right, summed over all steps and lanes."""
    A, C = left.shape[2], right.shape[2]
    out = left.new_empty(A, C)
    inner, outer, (first, second) = _rows(left, right)
    threads = threads_for(inner * outer * A * C, A)
    _library(left.dtype).multiply_transposed(*first, A, *second, C, inner, outer, out.data_ptr(), threads)
    return out


def with_contiguous_rows(x: Tensor) -> Tensor:
    """`x` itself unless the numbers of a row are scattered in memory."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
