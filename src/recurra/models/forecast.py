"""Forecasts: what numbers come next, as a distribution, and how a series goes on when the network runs free."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.models.autoregression import Autoregression, LinearPast
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
    - `baseline`: the head predicts what this linear function of past values leaves, instead of a change from the last value, less
      the buffer `share` of it; where the function leaves its range of values, it is alone. The recurrent layers read it too,
      all within that range.
    - `skip`: the prediction is also a linear function of the values themselves, past the recurrent layers and their dropout.

    ```python
    model = rc.models.Forecaster(rc.Recurrent("gru", 2, 32), channels=2)
    predicted, state = model(torch.randn(4, 100, 2))                            # [4, 100, 4]: means and scales
    paths = model.run_free(torch.randn(4, 100, 2), torch.rand(200, 24, 2))      # [4, 200, 24, 2]
    ```
    """

    share: Tensor

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
        baseline: LinearPast | None = None,
        **options: Any,
    ):
        made = make_head(head, channels, components)
        size = channels * (1 + gaps + (baseline is not None))
        if recurrent.input_size != size:
            raise OptionError(
                f"the recurrent layers read {recurrent.input_size} numbers; {channels} channels"
                f"{', what the baseline predicts' if baseline is not None else ''}"
                f"{' and which of them are missing' if gaps else ''} are {size}."
            )
        super().__init__(recurrent, channels * made.numbers, **options)
        self.channels, self.head, self.change, self.gaps = channels, made, change, gaps
        self.baseline = baseline
        if baseline is not None:
            self.register_buffer("share", torch.zeros(()))
            nn.init.zeros_(self.output.weight)  # training begins with the baseline
        self.skip = nn.Linear(channels, channels * made.numbers, bias=False) if skip else None
        if self.skip is not None:
            nn.init.zeros_(self.skip.weight)

    def fill(self, fitted: Autoregression, values: Float[Tensor, "T C"]) -> None:
        """Begin with the baseline: take over what was fitted, how far off it was, and the range of these values."""
        assert self.baseline is not None
        self.baseline.fill(fitted, values)
        with torch.no_grad():
            self.head.begin(self.output.bias, fitted.scale.to(self.output.bias))

    @property
    def remembers(self) -> dict[str, tuple[int, ...]]:
        return {} if self.baseline is None else {"past": (self.baseline.order, self.channels + 1)}

    def initial_state(self, batch_size: int) -> State:
        layers = super().initial_state(batch_size)
        return layers if self.baseline is None else (*layers, ((self.baseline.initial(batch_size),),))

    def embed(self, inputs: Float[Tensor, "B T C"]) -> Float[Tensor, "B T D"]:
        return self._embed(inputs, None if self.baseline is None else self.baseline(inputs)[0])

    def _embed(self, inputs: Float[Tensor, "B T C"], linear: Float[Tensor, "B T C"] | None) -> Float[Tensor, "B T D"]:
        missing = inputs.isnan()
        read = torch.where(missing, 0, inputs)
        if (
            self.baseline is not None and linear is not None
        ):  # a series that grows leaves what was learned: the baseline goes on with it
            least, most = self.baseline.least.to(read), self.baseline.most.to(read)
            read = torch.cat([each.clamp(least, most) for each in (read, linear)], dim=-1)
        if self.gaps:
            read = torch.cat([read, missing.to(read.dtype)], dim=-1)
        deeper: Tensor = self.deep_input(read)
        return deeper

    def forward(
        self, inputs: Float[Tensor, "B T C"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T P"], State]:
        past = linear = None
        if self.baseline is not None:
            if state is not None:  # what the baseline remembers stands behind the layers
                *layers, ((past,),) = state
                state = tuple(layers)
            linear, past = self.baseline(inputs, past, lengths)
        hidden, final = self.run(self._embed(inputs, linear), state, lengths)
        predicted = self.output(hidden)
        if self.skip is not None:
            predicted = predicted + self.skip(inputs.nan_to_num(0.0))
        predicted = predicted.to(inputs.dtype)  # a small change of a large value must not be lost
        if self.baseline is not None and linear is not None and past is not None:
            least, most = (each.to(linear) for each in (self.baseline.least, self.baseline.most))
            left_out = torch.where((linear < least) | (linear > most), 1, self.share.to(linear))
            around = linear - left_out * self.head.location(predicted)
            return self.head.around(predicted, around), (*final, ((past,),))
        if self.change:
            predicted = self.head.around(predicted, inputs.nan_to_num(0.0))
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
