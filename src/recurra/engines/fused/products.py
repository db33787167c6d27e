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
    library.multiply_transposed.argtypes = [address, *[long] * 3, address, *[long] * 5, address, long]
    for function in (library.pack_matrix, library.multiply_rows, library.multiply_transposed):
        function.restype = None
    return library


def aligned(size: int, dtype: torch.dtype) -> Tensor:
    """Memory that starts at a whole vector."""
    memory = torch.empty(size + 16, dtype=dtype)
    return memory[(-memory.data_ptr() % 64) // memory.element_size() :]


def _rows(x: Float[Tensor, "T B _"]) -> tuple[int, int, int]:
    """Where the rows of a tensor lie whose last axis is contiguous: its address and its strides over steps and lanes."""
    T, B, _ = x.shape
    lane = x.stride(1) if B > 1 else x.stride(0)
    return x.data_ptr(), x.stride(0) if T > 1 else B * lane, lane


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
    T, B, _ = rows.shape
    threads = threads_for(T * B * K * O, T * B)
    _library(rows.dtype).multiply_rows(*_rows(rows), *_rows(out), B, T * B, K, packed.data_ptr(), O, threads)


def gather(left: Float[Tensor, "T B A"], right: Float[Tensor, "T B C"]) -> Float[Tensor, "A C"]:
    """leftᵀ · right, summed over all steps and lanes."""
    (T, B, A), C = left.shape, right.shape[2]
    threads = threads_for(T * B * A * C, B)
    parts = left.new_zeros(threads, A, C) if threads > 1 else left.new_empty(1, A, C)
    _library(left.dtype).multiply_transposed(*_rows(left), A, *_rows(right), C, T, B, parts.data_ptr(), threads)
    return parts.sum(0) if threads > 1 else parts[0]


def with_contiguous_rows(x: Tensor) -> Tensor:
    """`x` itself unless the numbers of a row are scattered in memory."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
