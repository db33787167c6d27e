"""The n-ary Tree-LSTM through all levels of a forest, with its adjoint written out.

Autograd would walk a dozen nodes for each level and add up a weight gradient for each. Here the states of all nodes lie in
one array by level, each level is one product, and the gradient of the weights is one product over all levels: in C++
(`tree_lstm.cpp`) where there is a compiler, otherwise in torch's operations.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from recurra.data.forest import Forest, Plan, make_plan
from recurra.engines.fused.build import build
from recurra.engines.fused.engine import supports_cpu
from recurra.engines.fused.kernels import REALS
from recurra.engines.fused.memory import Buffer
from recurra.types import Float, Int

# grad · y (1 − y) and grad · (1 − y²) in one pass over memory
sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward.grad_input, torch.ops.aten.tanh_backward.grad_input


class NAryLevels(torch.autograd.Function):
    """Drives `[N, 4H]` (i, o, u, f) in the plan's order and the children's matrix `[(3 + K)H, KH]`, to outputs `[N, H]` in that
    of the forest.

        i, o, u = σ, σ, tanh (drive + Σₗ Uₗ hₗ),   fₖ = σ(drive + Σₗ Uₖₗ hₗ),   c = i u + Σₖ fₖ cₖ,   h = o tanh(c)
    """

    @staticmethod
    def forward(ctx: Any, drives: Float[Tensor, "N GH"], U: Float[Tensor, "RH KH"], plan: Plan) -> Float[Tensor, "N H"]:
        N, H = len(drives), drives.shape[1] // 4
        K, leaves = U.shape[1] // H, plan.bounds[1]
        gates, squashed = drives.new_empty(N, 3 * H), drives.new_empty(N, H)  # i, o, u; tanh(c)
        forget, below = (drives.new_empty(N - leaves, K * H) for _ in range(2))
        h, c = (drives.new_empty(N + 1, H) for _ in range(2))
        h[N], c[N] = 0, 0  # of a child that is not there
        for first, last in zip(plan.bounds, plan.bounds[1:], strict=False):
            own = slice(first, last)
            i, o, u = gates[own].split(H, 1)
            if first == 0:
                torch.sigmoid(drives[own, : 2 * H], out=gates[own, : 2 * H])
                torch.tanh(drives[own, 2 * H : 3 * H], out=u)
                torch.mul(i, u, out=c[own])
            else:
                here = slice(first - leaves, last - leaves)
                children = plan.children[here.start * K : here.stop * K]
                torch.index_select(h, 0, children, out=below[here].view(-1, H))
                z = below[here] @ U.T
                torch.add(z[:, : 3 * H], drives[own, : 3 * H], out=gates[own])
                gates[own, : 2 * H].sigmoid_()
                u.tanh_()
                f = forget[here].view(-1, K, H)
                torch.add(z[:, 3 * H :].view(-1, K, H), drives[own, None, 3 * H :], out=f).sigmoid_()
                torch.sum(c.index_select(0, children).view(-1, K, H).mul_(f), 1, out=c[own])
                c[own].addcmul_(i, u)
            torch.tanh(c[own], out=squashed[own])
            torch.mul(o, squashed[own], out=h[own])
        ctx.save_for_backward(U, gates, forget, below, c, squashed)
        ctx.plan = plan
        return h.index_select(0, plan.back)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Float[Tensor, "N H"]) -> tuple[Tensor, Tensor, None]:
        U, gates, forget, below, c, squashed = ctx.saved_tensors
        plan: Plan = ctx.plan
        N, H = squashed.shape
        K, leaves = U.shape[1] // H, plan.bounds[1]
        inner = N - leaves
        outer = outer.index_select(0, plan.order)
        drives, dz = outer.new_empty(N, 4 * H), outer.new_empty(inner, (3 + K) * H)
        drives[:leaves, 3 * H :] = 0
        # what each node sends to its children; the last row is for roots, to which nothing is sent
        dh, dc = (outer.new_empty(inner * K + 1, H) for _ in range(2))
        dh[inner * K], dc[inner * K] = 0, 0
        for first, last in reversed(list(zip(plan.bounds, plan.bounds[1:], strict=False))):
            own = slice(first, last)
            i, o, u = gates[own].split(H, 1)
            to_i, to_o, to_u, to_f = drives[own].split(H, 1)
            to_h = dh.index_select(0, plan.slots[own]).add_(outer[own])
            to_c = dc.index_select(0, plan.slots[own])
            to_c += torch.ops.aten.tanh_backward(to_h * o, squashed[own])
            sigmoid_backward(to_h * squashed[own], o, grad_input=to_o)
            sigmoid_backward(to_c * u, i, grad_input=to_i)
            tanh_backward(to_c * i, u, grad_input=to_u)
            if first == 0:
                continue
            here = slice(first - leaves, last - leaves)
            rows = slice(here.start * K, here.stop * K)
            f = forget[here].view(-1, K, H)
            torch.mul(to_c[:, None], f, out=dc[rows].view(-1, K, H))
            kept = c.index_select(0, plan.children[rows]).view(-1, K, H).mul_(to_c[:, None])
            each_f = dz[here, 3 * H :].view(-1, K, H)
            sigmoid_backward(kept, f, grad_input=each_f)
            torch.sum(each_f, 1, out=to_f)
            dz[here, : 3 * H] = drives[own, : 3 * H]
            torch.mm(dz[here], U, out=dh[rows].view(-1, K * H))
        return drives, dz.T @ below, None


class CompiledLevels(torch.autograd.Function):
    """The same in C++: drives `[M, 4H]` and U to outputs `[N, H]`. `rows`: which drive each node has; `None`: its own."""

    @staticmethod
    def forward(ctx: Any, drives: Tensor, U: Tensor, forest: Forest, rows: Tensor | None) -> Tensor:
        drives, U = (each.resolve_neg().contiguous() for each in (drives, U))
        H, N = drives.shape[1] // 4, forest.nodes
        K = U.shape[1] // H
        out, ctx.kept = drives.new_empty(N, H), _borrow(N * (5 + 2 * K) * H, drives.dtype)
        ctx.save_for_backward(drives, U, out)
        ctx.forest, ctx.rows = forest, None if rows is None else rows.long().contiguous()
        ctx.threads = torch.get_num_threads()  # what is kept lies by the threads' shares: both runs have the same
        _kernel(drives.dtype).forward(_given(ctx, drives, U, out=out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Float[Tensor, "N H"]) -> tuple[Tensor, Tensor, None, None]:
        drives, U, out = ctx.saved_tensors
        kernel, outer = _kernel(drives.dtype), outer.resolve_neg().contiguous()
        d_drives, d_U = torch.empty_like(drives), torch.empty_like(U)
        given = _given(ctx, drives, U, out=out, outer=outer, d_drives=d_drives, d_U=d_U)
        scratch = _borrow(kernel.scratch_size(given), drives.dtype)
        given.scratch = scratch.address
        kernel.backward(given)
        return d_drives, d_U, None, None


class _Trees(ctypes.Structure):
    """`Trees` of `tree_lstm.cpp`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("N", "B", "M", "H", "K", "threads")) + tuple(
        (name, ctypes.c_void_p)
        for name in (
            *("parents", "heights", "positions", "roots", "rows", "drives", "U", "out", "memory"),
            *("outer", "scratch", "d_drives", "d_U"),
        )
    )


def _given(ctx: Any, drives: Tensor, U: Tensor, **more: Tensor) -> _Trees:
    forest, H = ctx.forest, drives.shape[1] // 4
    tensors = {name: getattr(forest, name) for name in ("parents", "heights", "positions", "roots")}
    tensors |= {"drives": drives, "U": U, **more} | ({} if ctx.rows is None else {"rows": ctx.rows})
    assert all(each.is_contiguous() for each in tensors.values())
    sizes = {"N": forest.nodes, "B": len(forest), "M": len(drives), "H": H, "K": U.shape[1] // H}
    addresses = {name: each.data_ptr() for name, each in tensors.items()}
    return _Trees(**sizes, **addresses, threads=ctx.threads, memory=ctx.kept.address)


def _borrow(size: int, dtype: torch.dtype) -> Buffer:
    """Batches of trees differ in size; of one power of two they share a buffer."""
    return Buffer(1 << (size - 1).bit_length(), dtype)


@lru_cache(maxsize=2)
def _kernel(dtype: torch.dtype) -> ctypes.CDLL:
    source = Path(__file__).with_name("tree_lstm.cpp").read_text()
    library = build(source, REALS[dtype], f"the {REALS[dtype]} kernel of n-ary trees")
    for function in (library.forward, library.backward, library.scratch_size):
        function.argtypes, function.restype = [ctypes.POINTER(_Trees)], None
    library.scratch_size.restype = ctypes.c_int64
    return library


class Permuted(torch.autograd.Function):
    """Rows in another order; gradients go back by the inverse, which takes rows too and adds nothing up."""

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "N D"], order: Int[Tensor, " N"], back: Int[Tensor, " N"]) -> Tensor:
        ctx.save_for_backward(back)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return outer.index_select(0, back), None, None


def run_levels(
    drives: Float[Tensor, "M GH"], U: Float[Tensor, "RH KH"], forest: Forest, rows: Int[Tensor, " N"] | None
) -> Float[Tensor, "N H"]:
    """The outputs of all nodes; `rows`: which drive each node has."""
    if supports_cpu(drives.device, drives.dtype):
        compiled: Tensor = CompiledLevels.apply(drives, U, forest, rows)  # type: ignore[no-untyped-call]
        return compiled
    return run_in_torch(drives, U, forest, rows)


def run_in_torch(drives: Tensor, U: Tensor, forest: Forest, rows: Tensor | None) -> Tensor:
    """The same without a compiler, and on a GPU."""
    plan = make_plan(forest, U.shape[1] * 4 // drives.shape[1]).to(drives.device)
    each = drives if rows is None else drives.index_select(0, rows.to(drives.device))
    in_order = Permuted.apply(each, plan.order, plan.back)  # type: ignore[no-untyped-call]
    outputs: Tensor = NAryLevels.apply(in_order, U, plan)  # type: ignore[no-untyped-call]
    return outputs
