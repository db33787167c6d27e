"""How well scores put the positive before the negative."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recurra.types import Float, Int


def auc(scores: Float[Tensor, " N"], labels: Int[Tensor, " N"]) -> float:
    """The area under the curve of hits over false alarms: the chance that a positive has a higher score than a negative.

    Exact: pairs with the same score count a half (Mann & Whitney 1947). Labels are 0 and 1; of one kind only, it is NaN.

    ```python
    rc.metrics.auc(torch.tensor([0.1, 0.4, 0.4, 0.9]), torch.tensor([0, 0, 1, 1]))      # 0.875
    ```
    """
    _, place = scores.unique(return_inverse=True)
    hits = torch.bincount(place, weights=labels.double())
    misses = torch.bincount(place, weights=1 - labels.double())
    pairs = float(hits.sum() * misses.sum())
    if not pairs:
        return math.nan
    before = misses.cumsum(0) - misses
    return float((hits * (before + misses / 2)).sum()) / pairs
