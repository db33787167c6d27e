"""What every model that reads a sequence step by step has in common, and what training relies on."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from recurra.layers.deep import DeepLinear, deepen
from recurra.layers.dropout import VariationalDropout
from recurra.layers.recurrent import Recurrent
from recurra.models.draws import draw_numbers
from recurra.types import Float, Int, State


class SequenceModel(nn.Module, ABC):
    """Inputs become vectors, recurrent layers read them, and a linear map of each step's output is the prediction.

    - `input_dropout`: of the vectors that are read, one mask for all of time; `None`: as the layers' own, which is also of
      outputs.
    - `deep_input`, `deep_output`: so many extra tanh layers from the vectors to the recurrence, and from it to the prediction.
    """

    def __init__(
        self,
        recurrent: Recurrent,
        output_size: int,
        *,
        input_dropout: float | None = None,
        deep_input: int = 0,
        deep_output: int = 0,
    ):
        super().__init__()
        self.deep_input = deepen(recurrent.input_size, deep_input)
        self.recurrent = recurrent
        self.input_dropout, self.dropout = make_dropouts(recurrent, input_dropout)
        self.output = DeepLinear(recurrent.output_size, output_size, deep_output)
        nn.init.zeros_(self.output.bias)

    @property
    def remembers(self) -> dict[str, tuple[int, ...]]:
        """What the state holds behind that of the recurrent layers: names and shapes, of one batch row."""
        return {}

    def initial_state(self, batch_size: int) -> State:
        """The state before the first step."""
        return self.recurrent.initial_state(batch_size)

    @abstractmethod
    def embed(self, inputs: Tensor) -> Float[Tensor, "B T D"]:
        """The vectors that the recurrent layers read."""

    def hidden(
        self, inputs: Tensor, state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T H"], State]:
        """What the last linear map reads, and the state after the last step."""
        return self.run(self.embed(inputs), state, lengths)

    def run(
        self, read: Float[Tensor, "B T D"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T H"], State]:
        """The same, from vectors that the recurrent layers read."""
        read = self.input_dropout(read.transpose(0, 1)).transpose(0, 1)
        trace = self.recurrent(read, state, lengths)
        return self.dropout(trace.outputs.transpose(0, 1)).transpose(0, 1), trace.final

    def forward(
        self, inputs: Tensor, state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T V"], State]:
        """The prediction of each step, and the state after the last."""
        hidden, final = self.hidden(inputs, state, lengths)
        return self.output(hidden), final

    def step(self, inputs: Tensor, state: State | None = None) -> tuple[Float[Tensor, "B V"], State]:
        """One step of each batch row."""
        predicted, final = self(inputs[:, None], state)
        return predicted[:, 0], final

    def draw(self, predicted: Float[Tensor, "B V"]) -> Tensor:
        """What a step predicts, as the next one may read it: here a token, drawn by its probability."""
        return draw_numbers(predicted.float().softmax(-1))


def make_dropouts(recurrent: Recurrent, input_dropout: float | None) -> tuple[VariationalDropout, VariationalDropout]:
    """Of inputs, and of outputs: the second, and the first unless it is given, are as between the layers."""
    share = recurrent.dropout.p
    return VariationalDropout(share if input_dropout is None else input_dropout), VariationalDropout(share)
