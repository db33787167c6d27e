"""Forecasts: what numbers come next, as a distribution, and how a series goes on when the network runs free."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.models.heads import make_head
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int, State


class Forecaster(SequenceModel):
    """Recurrent layers of any cell read the values of each step, and a head predicts the distribution of the next.

    The joint density of a series is the product of its conditionals, p(y₁ … y_T) = Π p(y_t | y₁ … y_{t−1}); what is drawn at
    one step is fed back at the next.

    - `channels`: numbers of a step, about 0 with size about 1. One that is missing (NaN) is read as 0.
    - `head`: `gaussian`, `mixture` (of so many `components`), `quantiles`, `bernoulli` or `chain`: see `recurra.models.heads`.
    - `change`: the head predicts the change from the last value.
    - `gaps`: the network is also told which values are missing.
    - `skip`: the prediction is also a linear function of the values themselves, past the recurrent layers and their dropout.

    ```python
    model = rc.models.Forecaster(rc.Recurrent("gru", 2, 32), channels=2)
    predicted, state = model(torch.randn(4, 100, 2))                            # [4, 100, 4]: means and scales
    paths = model.run_free(torch.randn(4, 100, 2), torch.rand(200, 24, 2))      # [4, 200, 24, 2]
    ```
    """

    def __init__(
        self,
        recurrent: Recurrent,
        channels: int,
        *,
        head: str = "gaussian",
        components: int = 5,
        change: bool = False,
        gaps: bool = False,
        skip: bool = False,
        **options: Any,
    ):
        made = make_head(head, channels, components)
        if recurrent.input_size != channels * (1 + gaps):
            raise OptionError(
                f"the recurrent layers read {recurrent.input_size} numbers; {channels} channels"
                f"{' and which of them are missing' if gaps else ''} are {channels * (1 + gaps)}."
            )
        super().__init__(recurrent, channels * made.numbers, **options)
        self.channels, self.head, self.change, self.gaps = channels, made, change, gaps
        self.skip = nn.Linear(channels, channels * made.numbers, bias=False) if skip else None
        if self.skip is not None:
            nn.init.zeros_(self.skip.weight)

    def embed(self, inputs: Float[Tensor, "B T C"]) -> Float[Tensor, "B T D"]:
        missing = inputs.isnan()
        read = torch.where(missing, 0, inputs)
        if self.gaps:
            read = torch.cat([read, missing.to(read.dtype)], dim=-1)
        deeper: Tensor = self.deep_input(read)
        return deeper

    def forward(
        self, inputs: Float[Tensor, "B T C"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T P"], State]:
        predicted, final = super().forward(inputs, state, lengths)
        if self.skip is not None:
            predicted = predicted + self.skip(inputs.nan_to_num(0.0))
        if self.change:  # in the precision of the values: a small change of a large one must not be lost
            predicted = self.head.around(predicted.to(inputs.dtype), inputs.nan_to_num(0.0))
        return predicted, final

    def loss(
        self, predicted: Float[Tensor, "B T P"], targets: Float[Tensor, "B T C"], weights: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Σ weight · loss of the step."""
        losses: Tensor = self.head.losses(predicted, targets)
        return (losses * weights.to(losses.dtype)).sum()

    def draw(self, predicted: Float[Tensor, "B P"]) -> Float[Tensor, "B C"]:
        noise = torch.rand(*predicted.shape[:-1], self.channels, dtype=torch.float64, device=predicted.device)
        drawn: Tensor = self.head.draw(predicted, noise.clamp_(1e-9, 1 - 1e-9))
        return drawn

    @torch.no_grad()
    def run_free(self, known: Float[Tensor, "B T C"], noise: Float[Tensor, "S K C"]) -> Float[Tensor, "B S K C"]:
        """K steps that follow each of some series, drawn S times: each step is fed what the step before drew.

        All series are drawn with the same uniform numbers, so that a forecast does not depend on what is forecast beside it.
        """
        training = self.training
        self.eval()
        (B, _, C), (S, K, _) = known.shape, noise.shape
        predicted, state = self(known.to(self.output.weight))
        predicted = predicted[:, -1].repeat_interleave(S, dim=0)
        state = _each(state, S)
        noise = noise.to(predicted.device, torch.float64).repeat(B, 1, 1)
        paths: list[Tensor] = []
        for k in range(K):
            if k:
                predicted, state = self.step(paths[-1], state)
            paths.append(self.head.draw(predicted, noise[:, k]))
        self.train(training)
        return torch.stack(paths, dim=1).view(B, S, K, C)


def _each(state: Any, count: int) -> Any:
    """The state of every batch row, so many times."""
    if isinstance(state, Tensor):
        return state.repeat_interleave(count, dim=0)
    return tuple(_each(part, count) for part in state)
