"""Extra feed-forward layers before and after the recurrence: they read one step at a time."""

from __future__ import annotations

from torch import Tensor, nn

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
