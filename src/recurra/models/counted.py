"""A language model and counts of its training text, mixed: what a run that is combined with them predicts with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recurra.models.language import LanguageModel
from recurra.models.markov_tables import MarkovTables
from recurra.types import Float, Int, State


class CountedLanguageModel(nn.Module):
    """log((1 − share) P_network + share P_counts) after each step, from a `LanguageModel` with a `baseline` and its share.

    The state holds the last tokens behind that of the recurrent layers, so that it streams as the network does.

    ```python
    counted = rc.models.Markov.fit(torch.tensor([0, 1, 0, 1, 1]), order=1, vocabulary_size=2)
    tables = rc.models.MarkovTables(counted.sizes, 2).fill(counted)
    network = rc.models.LanguageModel(2, rc.Recurrent("gru", 4, 8), baseline=tables)
    network.share.fill_(0.4)
    logs, state = rc.models.CountedLanguageModel(network)(torch.tensor([[0, 1, 0]]))       # [1, 3, 2]
    ```
    """

    def __init__(self, network: LanguageModel):
        super().__init__()
        self.network, self.training = network, network.training

    @property
    def recurrent(self) -> Any:
        return self.network.recurrent

    @property
    def output(self) -> Any:
        return self.network.output

    @property
    def counts(self) -> MarkovTables:
        assert self.network.baseline is not None
        return self.network.baseline

    @property
    def remembers(self) -> dict[str, tuple[int, ...]]:
        """What the state holds behind that of the recurrent layers: the tokens that counts look back at."""
        return {"before": (self.counts.order,)}

    def initial_state(self, batch_size: int) -> State:
        return self.with_past(self.network.initial_state(batch_size), self.counts.initial(batch_size))

    def forward(
        self, inputs: Int[Tensor, "B T"], state: State | None = None, lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[Float[Tensor, "B T V"], State]:
        layers, past = (None, self.counts.initial(len(inputs))) if state is None else self.split(state)
        logits, final = self.network(inputs, layers, lengths)
        return self.mix(logits, self.counts(inputs, past)), self.with_past(final, self.after(past, inputs, lengths))

    def step(self, inputs: Int[Tensor, " B"], state: State | None = None) -> tuple[Float[Tensor, "B V"], State]:
        """One step of each batch row."""
        predicted, final = self(inputs[:, None], state)
        return predicted[:, 0], final

    def mix(self, logits: Float[Tensor, "*N V"], counted: Float[Tensor, "*N V"]) -> Float[Tensor, "*N V"]:
        """log P of the token after each step, in float64, from the network's logits and log P of the counts. No `logaddexp`: its
        last digits depend on where in memory a number lies, and streams promise theirs."""
        share = self.network.share.double()
        return ((1 - share) * logits.double().log_softmax(-1).exp() + share * counted.exp()).log()

    def after(
        self, past: Int[Tensor, "B K"], inputs: Int[Tensor, "B T"], lengths: Int[Tensor, " B"] | None = None
    ) -> Int[Tensor, "B K"]:
        """The last K tokens, once some more were read."""
        line, K = torch.cat([past, inputs], dim=1), self.counts.order
        if lengths is None:
            return line[:, line.shape[1] - K :]
        return line.gather(1, lengths.to(line.device)[:, None] + torch.arange(K, device=line.device))

    def split(self, state: State) -> tuple[State, Int[Tensor, "B K"]]:
        """The state of the layers, and the last tokens; streams carry these as numbers of the layers' dtype."""
        *layers, ((past,),) = state
        return tuple(layers), past.long()

    def with_past(self, layers: State, past: Int[Tensor, "B K"]) -> State:
        return (*layers, ((past,),))


def predictor(model: Any) -> Any:
    """What a run predicts with: the network, mixed with its counts where they have a share."""
    return CountedLanguageModel(model) if isinstance(model, LanguageModel) and model.baseline and model.share else model
