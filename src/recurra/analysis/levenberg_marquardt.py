"""One step of Levenberg–Marquardt: y = −(AᵀA + λI)⁻¹ AᵀG, for many A at once."""

from __future__ import annotations

import torch
from torch import Tensor

from recurra.types import Float


def levenberg_marquardt_step(
    A: Float[Tensor, "N S S"], G: Float[Tensor, "N S"], damping: Float[Tensor, " N"], local: slice | None = None
) -> Float[Tensor, "N S"]:
    """The step of each row; NaN where it cannot be computed. λ is `damping` times the mean of the diagonal of AᵀA.

    - `local`: columns in which A is diagonal blocks, one below the other, such as those of an LSTM's memory c. They are
      eliminated by hand, and what is left to be multiplied and factored is smaller.

    With A = [P E] and E those columns, EᵀE is diagonal, and the rest solves (Pᵀ Q P + λI) y = −Pᵀ Q G with
    Q = I − E (EᵀE + λI)⁻¹ Eᵀ. Q mixes only the rows of one unit, and so does its root, with which Pᵀ Q P is one product.
    """
    weight = damping * (A.square().sum((1, 2)) / A.shape[1]).clamp(min=1e-12)
    if local is None:
        return -_solve(A, (A.mT @ G[..., None])[..., 0], weight)
    H = local.stop - local.start
    P = torch.cat([A[..., : local.start], A[..., local.stop :]], dim=-1).unflatten(1, (-1, H))  # [N, R, H, S − H]
    e = A[..., local].unflatten(1, (-1, H)).diagonal(dim1=2, dim2=3)[..., None]  # [N, R, H, 1]
    g = G.unflatten(1, (-1, H))[..., None]
    total = e.square().sum(1) + weight[:, None, None]
    along = (e * P).sum(1) / total
    force = (e * g).sum(1) / total
    root = 1 / (1 + (weight[:, None, None] / total).sqrt())
    mixed = (P - e * (root * along)[:, None]).flatten(1, 2)
    right = (P.flatten(1, 2).mT @ (g - e * force[:, None]).flatten(1, 2))[..., 0]
    rest = -_solve(mixed, right, weight)
    own = -(force + along @ rest[..., None])[..., 0]
    return torch.cat([rest[:, : local.start], own, rest[:, local.start :]], dim=-1)


def _solve(A: Float[Tensor, "N M K"], right: Float[Tensor, "N K"], weight: Float[Tensor, " N"]) -> Float[Tensor, "N K"]:
    """(AᵀA + λI)⁻¹ right."""
    normal = A.mT @ A
    normal.diagonal(dim1=1, dim2=2).add_(weight[:, None])
    factor, failed = torch.linalg.cholesky_ex(normal)
    found = torch.cholesky_solve(right[..., None], factor)[..., 0]
    return torch.where((failed == 0)[:, None], found, torch.nan)
