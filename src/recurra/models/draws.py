"""Drawing numbers by the probabilities that a network predicts."""

from __future__ import annotations

import torch
from torch import Tensor

from recurra.errors import ShapeError
from recurra.types import Float, Int


def draw_numbers(chances: Float[Tensor, "N V"], generator: torch.Generator | None = None) -> Int[Tensor, " N"]:
    """A number for each row, by the probabilities in it; refused where a network predicts none. (On a GPU
    torch itself ends then: looking first would wait for it at every step.)"""
    try:
        return torch.multinomial(chances, 1, generator=generator)[..., 0]
    except RuntimeError as error:
        if bool(chances.isfinite().all()):
            raise
        raise ShapeError(
            "what the network predicts here is not finite, so that nothing can be drawn from it: its weights are too large, or "
            "its state has exploded. Use an earlier checkpoint, or train with a smaller training.learning_rate."
        ) from error
