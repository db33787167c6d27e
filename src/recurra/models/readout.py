"""Numbers in, numbers out: a recurrent network whose prediction is a linear map of its output at each step."""

from __future__ import annotations

from torch import Tensor

from recurra.cells.notation import Cell
from recurra.layers.recurrent import Recurrent
from recurra.models.sequence import SequenceModel
from recurra.types import Float


class Readout(SequenceModel):
    """y_t = V h_t + c, with h_t from recurrent layers of any cell that read the numbers as they are.

    ```python
    model = Readout(input_size=2, cell="gru", hidden_size=64, output_size=1)
    values, state = model(torch.randn(4, 100, 2))      # [4, 100, 1]
    ```
    """

    def __init__(
        self,
        input_size: int,
        cell: Cell | str,
        hidden_size: int,
        output_size: int,
        *,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        residual: bool = False,
        learn_initial: bool = False,
        deep_input: int = 0,
        deep_output: int = 0,
        engine: str = "auto",
    ):
        recurrent = Recurrent(
            cell,
            input_size,
            hidden_size,
            layers=layers,
            dropout=dropout,
            weight_dropout=weight_dropout,
            residual=residual,
            learn_initial=learn_initial,
            engine=engine,
        )
        super().__init__(
            recurrent,
            output_size,
            dropout=dropout,
            input_dropout=input_dropout,
            deep_input=deep_input,
            deep_output=deep_output,
        )

    def embed(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        read: Tensor = self.deep_input(inputs)
        return read
