from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.types import Float


def check_share(name: str, share: float) -> float:
    """The share that is dropped, if it leaves something."""
    if not 0 <= share < 1:
        raise OptionError(f"{name} must lie in [0, 1); got {share}.")
    return share


class VariationalDropout(nn.Module):
    """Dropout with one mask for all steps of a sequence. Gal & Ghahramani 2016."""

    def __init__(self, p: float):
        super().__init__()
        self.p = check_share("dropout", p)

    def forward(self, x: Float[Tensor, "T B D"]) -> Float[Tensor, "T B D"]:
        if not self.training or self.p == 0:
            return x
        mask = torch.empty(1, *x.shape[1:], dtype=x.dtype, device=x.device).bernoulli_(1 - self.p)
        return x * mask / (1 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
