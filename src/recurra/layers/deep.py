"""Extra feed-forward layers before and after the recurrence: they read one step at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from recurra.errors import OptionError
from recurra.types import Float


def deepen(size: int, layers: int) -> nn.Sequential:
    """`layers` layers x → tanh(W x + b) of one size; none leave everything as it is."""
    if layers < 0:
        raise OptionError(f"the number of extra layers must not be negative; got {layers}.")
    return nn.Sequential(*(nn.Sequential(nn.Linear(size, size), nn.Tanh()) for _ in range(layers)))


class DeepLinear(nn.Linear):
    """A linear map after `layers` extra layers of the input's size."""

    def __init__(self, input_size: int, output_size: int, layers: int = 0):
        super().__init__(input_size, output_size)
        self.before = deepen(input_size, layers)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return super().forward(self.before(x))


class StopLinear(DeepLinear):
    """Logits of tokens, and beside them the probability σ(s) that there is no further one: the row `end` is s.

    What comes out are logarithms of probabilities, so that it stands wherever logits do: log σ(s) of the end, and
    log(1 − σ(s)) + log softmax of the others.
    """

    def __init__(self, input_size: int, output_size: int, layers: int, end: int):
        super().__init__(input_size, output_size, layers)
        self.end = end

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        free = super().forward(x)
        stop, end = free[..., self.end, None], torch.tensor([self.end], device=free.device)
        others = free.index_fill(-1, end, -torch.inf).log_softmax(-1) + logsigmoid(-stop)
        return torch.where(torch.arange(free.shape[-1], device=free.device) == self.end, logsigmoid(stop), others)
