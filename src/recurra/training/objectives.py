"""What is minimised: the negative log-likelihood or squared error of each step, and how steps are weighed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from recurra.data.batches import Batch
from recurra.data.transfer import send
from recurra.errors import choose_from
from recurra.types import Float, Int

OVER_TIME = ("mean", "sum", "1/t")


def step_weights(
    B: int, T: int, lengths: Int[Tensor, " B"] | None, over_time: str, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "B T"]:
    """The weight of each step before it is divided by a count: 1, or 1/t counted from the start; 0 past a sequence's end."""
    choose_from("over_time", over_time, OVER_TIME)
    t = torch.arange(1, T + 1, device=device, dtype=dtype)
    weights = (1 / t if over_time == "1/t" else torch.ones_like(t)).expand(B, T)
    if lengths is None:
        return weights
    return torch.where(t <= lengths[:, None], weights, 0)


def batch_weights(batch: Batch, over_time: str, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "B T"]:
    """The weight of each step of a batch before it is divided by a count; steps that the batch does not score count nothing."""
    B, T = batch.inputs.shape[:2]
    lengths = None if batch.lengths is None else send(batch.lengths, device)
    weights = step_weights(B, T, lengths, over_time, device, dtype)
    return weights if batch.scored is None else weights * send(batch.scored, device).to(weights)


def weighted_nll(
    logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], weights: Float[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Σ weight · −log P(target).

    ```python
    logits, targets = torch.randn(2, 5, 3), torch.randint(3, (2, 5))
    rc.training.weighted_nll(logits, targets, torch.ones(2, 5))
    ```
    """
    losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.reshape(-1).to(losses.dtype)).sum()


def weighted_square(
    values: Float[Tensor, "B T D"], targets: Float[Tensor, "B T D"], weights: Float[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Σ weight · |value − target|²."""
    return ((values - targets).square().sum(-1) * weights.to(values.dtype)).sum()
