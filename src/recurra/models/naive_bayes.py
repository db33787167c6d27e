"""Naive Bayes: what something says as a bag of tokens."""

from __future__ import annotations

from torch import Tensor

from recurra.types import Float


def naive_bayes(
    tokens: Float[Tensor, "C V"], seen: Float[Tensor, " C"]
) -> tuple[Float[Tensor, "C V"], Float[Tensor, " C"]]:
    """log P(token | class) and log P(class), from how often each class has each token and how often there is each class; one more
    of each."""
    logs = ((tokens + 1) / (tokens + 1).sum(1, keepdim=True)).log()
    return logs, ((seen + 1) / (seen + 1).sum()).log()
