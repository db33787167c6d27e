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
from recurra.types import Float


class NAryLevels(torch.autograd.Function):
    """Drives `[N, 4H]` (i, o, u, f) in the plan's order and the children's matrix `[(3 + K)H, KH]`, to outputs `[N, H]`.

    i, o, u = σ, σ, tanh (drive + Σₗ Uₗ hₗ),   fₖ = σ(drive + Σₗ Uₖₗ hₗ),   c = i u + Σₖ fₖ cₖ,   h = o tanh(c)
    """

    @staticmethod
    def forward(ctx: Any, drives: Float[Tensor, "N GH"], U: Float[Tensor, "RH KH"], plan: Plan) -> Float[Tensor, "N H"]:
        N, H = len(drives), drives.shape[1] // 4
        K, leaves = U.shape[1] // H, plan.bounds[1]
        inner = N - leaves
        gates = drives.new_empty(N, 3 * H)  # i, o, u
        forget, below = drives.new_empty(inner, K * H), drives.new_empty(inner, K * H)
        h, c = (
            drives.new_zeros(N + 1, H),
            drives.new_zeros(N + 1, H),
        )  # the last row is that of a child that is not there
        squashed = drives.new_empty(N, H)  # tanh(c)
        for first, last in zip(plan.bounds, plan.bounds[1:], strict=False):
            i, o, u = (gates[first:last, k * H : (k + 1) * H] for k in range(3))
            if first == 0:
                gates[:last] = drives[:last, : 3 * H]
            else:
                here = slice(first - leaves, last - leaves)
                children = plan.children[here.start * K : here.stop * K]
                torch.index_select(h, 0, children, out=below[here].view(-1, H))
                z = below[here] @ U.T
                torch.add(z[:, : 3 * H], drives[first:last, : 3 * H], out=gates[first:last])
                f = forget[here].view(-1, K, H)
                torch.add(z[:, 3 * H :].view(-1, K, H), drives[first:last, None, 3 * H :], out=f)
                f.sigmoid_()
                torch.sum(f * c.index_select(0, children).view(-1, K, H), 1, out=c[first:last])
            gates[first:last, : 2 * H].sigmoid_()
            u.tanh_()
            c[first:last].addcmul_(i, u)
            torch.tanh(c[first:last], out=squashed[first:last])
            torch.mul(o, squashed[first:last], out=h[first:last])
        ctx.save_for_backward(U, gates, forget, below, c, squashed)
        ctx.plan = plan
        return h[:N]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Float[Tensor, "N H"]) -> tuple[Tensor, Tensor, None]:
        U, gates, forget, below, c, squashed = ctx.saved_tensors
        plan: Plan = ctx.plan
        N, H = squashed.shape
        K, leaves = U.shape[1] // H, plan.bounds[1]
        inner = N - leaves
        dz = outer.new_empty(inner, (3 + K) * H)
        drives = outer.new_empty(N, 4 * H)
        drives[:leaves, 3 * H :] = 0
        # what comes to the children of each node; the last row is for roots, which no parent sends anything
        dh, dc = outer.new_zeros(inner * K + 1, H), outer.new_zeros(inner * K + 1, H)
        for first, last in reversed(list(zip(plan.bounds, plan.bounds[1:], strict=False))):
            slots = plan.slots[first:last]
            i, o, u = (gates[first:last, k * H : (k + 1) * H] for k in range(3))
            t = squashed[first:last]
            to_h = dh.index_select(0, slots).add_(outer[first:last])
            to_c = dc.index_select(0, slots).add_(to_h * o * (1 - t * t))
            to_gates = torch.cat([to_c * u, to_h * t], 1)
            ends = drives[first:last]
            torch.mul(to_gates, gates[first:last, : 2 * H], out=ends[:, : 2 * H])
            ends[:, : 2 * H].mul_(1 - gates[first:last, : 2 * H])
            torch.mul(to_c * i, 1 - u * u, out=ends[:, 2 * H : 3 * H])
            if first == 0:
                continue
            here = slice(first - leaves, last - leaves)
            rows = slice(here.start * K, here.stop * K)
            f = forget[here].view(-1, K, H)
            kept = to_c[:, None] * f
            dc[rows] = kept.view(-1, H)
            kept *= (1 - f) * c.index_select(0, plan.children[rows]).view(-1, K, H)
            dz[here, : 3 * H] = ends[:, : 3 * H]
            dz[here, 3 * H :] = kept.view(-1, K * H)
            torch.sum(kept, 1, out=ends[:, 3 * H :])
            torch.mm(dz[here], U, out=dh[rows].view(-1, K * H))
        return drives, dz.T @ below, None
