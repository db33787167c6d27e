"""s_t = A_t s_{t-1} + b_t for all t, in as many rounds as T has binary digits; whole matrices on a GPU in three kernels."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor

from recurra.engines.fused import nvrtc
from recurra.types import Float

SMALL = 4
"""Matrices up to this size are multiplied element by element along the last axes, larger ones as matrices."""
LARGE = 32
"""Matrices up to this size are put together in the shared memory of a GPU."""
MOST_COLUMNS = 65_535
"""Recurrences side by side there: the second size of a grid is no larger."""
REALS = {torch.float32: "float", torch.float64: "double"}


def linear_scan(
    A: Float[Tensor, "T N N *rest"], b: Float[Tensor, "T N *rest"], *, backward: bool = False
) -> Float[Tensor, "T N *rest"]:
    """All states, from zero. Matrices are small and differ in each of the last axes. `backward` goes from the last step to the
    first: s_t = A_t s_{t+1} + b_t.

    Two neighbouring steps are one affine step, so a recurrence of half the length gives every second state, and one step from
    each of these gives the others. Nothing is divided by: products of small numbers may vanish.
    """
    fits = SMALL < A.shape[1] <= LARGE and b[:1].numel() <= A.shape[1] * MOST_COLUMNS
    if A.is_cuda and fits and A.dtype in REALS and len(b) > 1 and nvrtc.is_there():
        return scan_in_kernels(A, b, backward=backward)
    if backward:
        return linear_scan(A.flip(0), b.flip(0)).flip(0)
    T = len(b)
    if T <= 1:
        return b
    first, second = A[: T // 2 * 2 : 2], A[1::2]
    pairs = linear_scan(multiply(second, first), apply(second, b[: T // 2 * 2 : 2]) + b[1::2])
    states = torch.empty_like(b)
    states[1::2] = pairs
    states[0] = b[0]
    states[2::2] = apply(A[2::2], pairs[: (T - 1) // 2]) + b[2::2]
    return states


def scan_in_kernels(
    A: Float[Tensor, "T N N *rest"], b: Float[Tensor, "T N *rest"], *, backward: bool = False
) -> Float[Tensor, "T N *rest"]:
    """The maps of √T chunks side by side, the states at their borders, and from these the states of each chunk."""
    T, N = b.shape[:2]
    R, L = b[0, 0].numel(), isqrt(T - 1) + 1
    C, states = -(-T // L), torch.empty_like(b, memory_format=torch.contiguous_format)
    A, b = A.contiguous(), b.contiguous()
    matrix, offset, borders = b.new_empty(C, N, N, R), b.new_empty(C, N, R), b.new_empty(C, N, R)
    real, device = REALS[b.dtype], b.get_device()

    def launch(function: str, warps: int, numbers: int, chunks: int, *values: Tensor | int, turned: bool) -> None:
        sizes = f"constexpr int N = {N}, WARPS = {warps};\nconstexpr bool BACKWARD = {str(turned).lower()};\n"
        source = f'using real = {real};\n{sizes}#include "matrices.cuh"\n'
        shared = numbers * b.itemsize
        kernel = nvrtc.kernel(source, function, warps, shared, device, together=False)
        kernel(chunks, R, nvrtc.addresses(values))

    with nvrtc.on(device):
        launch("compose", 8, 4 * (N * (N + 1) + 3), C, T, L, R, A, b, matrix, offset, turned=backward)
        launch("walk", 1, 2 * (N + 3), 1, C, C, R, matrix, offset, 0, borders, turned=False)
        launch("walk", 1, 2 * (N + 3), C, T, L, R, A, b, borders, states, turned=backward)
    return states


def multiply(A: Tensor, B: Tensor) -> Tensor:
    if A.shape[1] > SMALL:
        return torch.einsum("tij...,tjk...->tik...", A, B)
    return A * B if A.shape[1] == 1 else (A.unsqueeze(3) * B.unsqueeze(1)).sum(2)


def apply(A: Tensor, s: Tensor) -> Tensor:
    if A.shape[1] > SMALL:
        return torch.einsum("tij...,tj...->ti...", A, s)
    return A[:, 0] * s if A.shape[1] == 1 else (A * s.unsqueeze(1)).sum(2)
