"""The n-ary Tree-LSTM through all levels of a forest, with its adjoint written out.

Autograd would walk a dozen nodes for each level and add up a weight gradient for each. Here the states of all nodes lie in
one array by level, each level is one product, and the gradient of the weights is one product over all levels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from recurra.data.forest import Plan
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


def permute(x: Float[Tensor, "N D"], plan: Plan) -> Float[Tensor, "N D"]:
    """What nodes read, in the plan's order."""
    made: Tensor = Permuted.apply(x, plan.order, plan.back)  # type: ignore[no-untyped-call]
    return made


def run_levels(drives: Float[Tensor, "N GH"], U: Float[Tensor, "RH KH"], plan: Plan) -> Float[Tensor, "N H"]:
    """The outputs of all nodes, as `NAryLevels` computes them."""
    outputs: Tensor = NAryLevels.apply(drives, U, plan)  # type: ignore[no-untyped-call]
    return outputs
