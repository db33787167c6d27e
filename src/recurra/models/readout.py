"""Numbers in, numbers out: a recurrent network whose prediction is a linear map of its output at each step."""

from __future__ import annotations

from torch import Tensor

from recurra.models.sequence import SequenceModel
from recurra.types import Float


class Readout(SequenceModel):
    """y_t = V h_t + c, with h_t from recurrent layers of any cell that read the numbers as they are.

    ```python
    model = rc.models.Readout(rc.Recurrent("gru", 2, 64), output_size=1)
    values, state = model(torch.randn(4, 100, 2))      # [4, 100, 1]
    ```
    """

    def embed(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        read: Tensor = self.deep_input(inputs)
        return read
