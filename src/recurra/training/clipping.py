"""Gradients kept in bounds: by their common norm, or each number by itself."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def clip_gradients(parameters: Iterable[nn.Parameter], norm: float | None, value: float | None) -> Tensor:
    """Clip in place, by value and then by norm; the norm before clipping.

    - `value`: each number is cut to [−value, value].
    - `norm`: if the norm of all gradients together is larger, all are scaled down to it, so that the direction is kept.
      Pascanu et al. 2013.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    total = _norm(gradients)
    if value is not None:
        for gradient in gradients:
            bound = min(value, torch.finfo(gradient.dtype).max)  # a larger one does not fit into the type
            gradient.clamp_(-bound, bound)
    if norm is not None:
        now = total if value is None else _norm(gradients)
        scale = (norm / (now + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)
    return total


def _norm(gradients: list[Tensor]) -> Tensor:
    total: Tensor = torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])
    )
    return total
