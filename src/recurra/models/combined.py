"""A network and a baseline, combined: mixed in probability, by a share that validation data chooses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recurra.types import Float

COMBINE = ("none", "baseline", "auto")
"""Choices of `model.combine`: the network alone, with a baseline, or with one where validation data prefers that."""
SHARES = tuple(k / 50 for k in range(50))
"""Of the baseline, to choose from."""
SURE = 2.0
"""By how many standard errors a combination must be better than the network alone."""


def mixed(first: Float[Tensor, "*N"], second: Float[Tensor, "*N"], share: float | Tensor) -> Float[Tensor, "*N"]:
    """log((1 − share) P₁ + share P₂), from log P₁ and log P₂."""
    if not isinstance(share, Tensor):
        share = first.new_tensor(share)
    if not share.any():
        return first
    return torch.logaddexp(first + torch.log1p(-share), second + torch.log(share))


def best_share(first: Float[Tensor, " N"], second: Float[Tensor, " N"]) -> float:
    """How much of the second of two models makes the mixture that gives the targets the highest probability."""
    return max(SHARES, key=lambda share: float(mixed(first, second, share).mean()))


def gains(first: Float[Tensor, " N"], second: Float[Tensor, " N"]) -> Float[Tensor, "W N"]:
    """What each of `SHARES` adds to the log-probability of every target, over the first model alone."""
    return torch.stack([mixed(first, second, share) - first for share in SHARES])


def choose_share(
    sums: Float[Tensor, " W"], squares: Float[Tensor, " W"], count: int, how: str, sure: float = SURE
) -> float:
    """The share with the highest gain; with `auto` 0 where that gain is within the noise.

    - `sums`, `squares`: of the gains of each share over `count` independent examples (sequences, cases). `sure`: how many
      standard errors of its mean the gain must reach.
    """
    best = int(sums.argmax())
    mean = float(sums[best]) / count
    error = math.sqrt(max(0.0, float(squares[best]) / count - mean**2) / count)
    return 0.0 if how == "auto" and mean <= sure * error else SHARES[best]
