"""Two directions: running a sequence from its true end, and merging the outputs of the two runs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recurra.types import Float, Int

MERGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "concat": lambda ahead, back: torch.cat([ahead, back], dim=-1),
    "sum": lambda ahead, back: ahead + back,
    "mean": lambda ahead, back: (ahead + back) / 2,
    "mul": lambda ahead, back: ahead * back,
}


def reverse(x: Float[Tensor, "T B D"], lengths: Int[Tensor, " B"] | None) -> Float[Tensor, "T B D"]:
    """Each sequence from its last step to its first; what lies past its end stays where it is. Its own inverse."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(len(x), device=x.device)[:, None]
    return take(x, torch.where(t < lengths, lengths - 1 - t, t))


def to_front(x: Float[Tensor, "T B D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "T B D"]:
    """Sequences that are padded at the start, moved so that the padding is at the end."""
    t = torch.arange(len(x), device=x.device)[:, None]
    return take(x, (t + len(x) - lengths) % len(x))


def to_back(x: Float[Tensor, "T B D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "T B D"]:
    """The inverse of `to_front`."""
    t = torch.arange(len(x), device=x.device)[:, None]
    return take(x, (t - len(x) + lengths) % len(x))


def take(x: Float[Tensor, "T B D"], steps: Int[Tensor, "T B"]) -> Float[Tensor, "T B D"]:
    """For each batch row the steps that are asked for."""
    return x.gather(0, steps[:, :, None].expand(-1, -1, x.shape[-1]))
