"""A network and a baseline, combined: mixed in probability, by a share that validation data chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recurra.types import Float

COMBINE = ("none", "baseline", "auto")
"""Choices of `model.combine`: the network alone, with a baseline, or with one where validation data prefers that."""
SHARES = tuple(k / 50 for k in range(50))
"""Of the baseline, to choose from."""
WITH_ALL = (*SHARES, 1.0)
"""The same, and the baseline alone."""
SURE = 2.0
"""By how many standard errors a combination must be better than the network alone."""
SAFE = 1.0
"""By how many standard errors whatever the network has a part in must be better than the baseline alone."""


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


def gains(
    first: Float[Tensor, " N"], second: Float[Tensor, " N"], *, shares: Sequence[float] = SHARES
) -> Float[Tensor, "W N"]:
    """What each share adds to the log-probability of every target, over the first model alone."""
    return torch.stack([mixed(first, second, share) - first for share in shares])


def choose_share(
    sums: Float[Tensor, " W"], squares: Float[Tensor, " W"], count: int, how: str, sure: float = SURE
) -> float:
    """The share with the highest gain; with `auto` 0 where that gain is within the noise.

    - `sums`, `squares`: of the gains of each share over `count` independent examples (sequences, cases). `sure`: how many
      standard errors of its mean the gain must reach.
    """
    best = int(sums.argmax())
    return 0.0 if how == "auto" and not _is_sure(sums[best], squares[best], count, sure) else SHARES[best]


def choose_safely(sums: Float[Tensor, "2 W"], squares: Float[Tensor, "2 W"], count: int, how: str) -> float:
    """The share of `WITH_ALL` with the highest gain. With `auto`: the baseline alone, unless the gain of that share over the
    baseline is above `SAFE` standard errors; the network alone, if it beats the baseline by as much and the mixture does not beat
    the network by `SURE` standard errors.

    - `sums`, `squares`: of gains over the network alone, and over the baseline alone; as for `choose_share`.
    """
    best = int(sums[0].argmax())

    def is_sure(over: int, which: int, errors: float) -> bool:
        return _is_sure(sums[over, which], squares[over, which], count, errors)

    if how == "auto" and not is_sure(1, best, SAFE):
        return 1.0
    if how == "auto" and is_sure(1, 0, SAFE) and not is_sure(0, best, SURE):
        return 0.0
    return WITH_ALL[best]


def _is_sure(total: Tensor, squares: Tensor, count: int, errors: float) -> bool:
    """Whether the mean of so many gains is above so many of its standard errors."""
    if count < 2:
        return False
    mean = float(total) / count
    return mean > errors * math.sqrt(max(0.0, float(squares) / count - mean**2) / (count - 1))
