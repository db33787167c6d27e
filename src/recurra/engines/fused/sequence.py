"""What the fused engine does with a whole sequence on any device, before and after its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recurra.engines.protocol import Run


def with_contiguous_rows(x: Tensor) -> Tensor:
    """`x` itself unless the numbers of a row are scattered in memory, or negated where they are read."""
    if x.is_neg():
        x = x.resolve_neg()
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def gradient_like(x: Tensor, layout: torch.memory_format = torch.preserve_format) -> Tensor:
    """Room for the gradient of `x`, in its layout or in this one, if rows are contiguous there; of rows that overlap, torch takes
    another order of axes."""
    made = torch.empty_like(x, memory_format=layout)
    return made if made.stride(-1) == 1 else torch.empty_like(x, memory_format=torch.contiguous_format)


def whole_masks(noise: Mapping[str, Tensor], H: int) -> dict[str, Tensor]:
    """The masks of a run with a number for each unit, as kernels read them."""
    return {name: mask.expand(*mask.shape[:2], H).contiguous() for name, mask in noise.items()}


def as_run(results: Sequence[Tensor], states: int, *, record: bool) -> Run:
    """What a sequence gave: the values of every state at each step, or of the first alone, then the final values of all."""
    steps = tuple(results[: states if record else 1])
    return Run(steps[0], tuple(results[len(steps) :]), steps if record else None)


def arriving_gradients(
    grads: Sequence[Tensor | None], states: int, *, record: bool
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """What arrives at each state, at every step and at its end; without `record` only the first state's steps were given out."""
    given = grads[:states] if record else [grads[0], *[None] * (states - 1)]
    arriving = [None if grad is None else with_contiguous_rows(grad) for grad in given]
    return arriving, [
        None if grad is None else grad.resolve_neg().contiguous() for grad in grads[len(grads) - states :]
    ]
