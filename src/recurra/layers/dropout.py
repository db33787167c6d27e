from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from recurra.errors import OptionError
from recurra.types import Float


def check_share(name: str, share: float) -> float:
    """The share that is dropped, if it leaves something."""
    if not 0 <= share < 1:
        raise OptionError(f"{name} must lie in [0, 1); got {share}.")
    return share


class Dropout(nn.Module):
    """`torch.nn.Dropout`, with cheaper masks on a CPU: four numbers share one draw of 64 bits."""

    def __init__(self, p: float):
        super().__init__()
        self.p = check_share("dropout", p)

    def forward(self, x: Float[Tensor, "*_"]) -> Float[Tensor, "*_"]:
        if not self.training or self.p == 0:
            return x
        if not x.is_cpu:
            return dropout(x, self.p)
        drawn = x.new_empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        kept = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * (kept.to(x.dtype) * (2**16 / (2**16 - dropped)))

    def extra_repr(self) -> str:
        return f"p={self.p}"


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
