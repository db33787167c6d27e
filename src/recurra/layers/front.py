"""`Front`: a convolution over time, and pooling, before recurrent layers read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.data.transfer import send
from recurra.errors import OptionError
from recurra.types import Float, Int


class Front(nn.Module):
    """y_t = relu(Σ_k K_k x_{t+k} + b) over a window around each step; then max-pooling over `pool` steps.

    What lies past a sequence's end counts as zero for the convolution and is never the maximum: a sequence gives the same
    numbers alone and in a batch with a longer one. `pool` shortens a sequence of n steps to ⌈n / pool⌉.

    ```python
    front = Front(input_size=12, output_size=32, width=5, pool=2)
    y, lengths = front(torch.randn(29, 4, 12), torch.tensor([29, 7, 12, 20]))      # [15, 4, 32], [15, 4, 6, 10]
    ```
    """

    def __init__(self, input_size: int, output_size: int, width: int, pool: int = 1):
        super().__init__()
        if width < 1 or width % 2 == 0:
            raise OptionError(f"the convolution's width must be odd, as many steps before as after; got {width}.")
        if pool < 1:
            raise OptionError(f"pool must be at least 1; got {pool}.")
        self.pool = pool
        self.kernel = nn.Conv1d(input_size, output_size, width, padding=width // 2)

    def forward(
        self, x: Float[Tensor, "T B D"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "S B C"], Int[Tensor, " B"]]:
        inside = within(len(x), send(lengths, x.device))
        y = self.kernel(torch.where(inside, x, 0).permute(1, 2, 0)).relu().permute(2, 0, 1)
        y = torch.where(inside, y, 0)  # after relu nothing is below zero, so that the maximum is never past the end
        if self.pool == 1:
            return y, lengths
        missing = -len(y) % self.pool
        y = torch.cat([y, y.new_zeros(missing, *y.shape[1:])])
        return y.unflatten(0, (-1, self.pool)).amax(1), (lengths + self.pool - 1) // self.pool


def within(T: int, lengths: Int[Tensor, " B"]) -> Tensor:
    """Which steps are true: `[T, B, 1]`."""
    return (torch.arange(T, device=lengths.device)[:, None] < lengths)[:, :, None]
