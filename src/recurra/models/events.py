"""The next event of a case, and the time to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.layers.dropout import VariationalDropout
from recurra.layers.recurrent import Recurrent
from recurra.models.combined import mixed
from recurra.models.markov_tables import MarkovTables
from recurra.types import Float, Int


class Following(NamedTuple):
    """Predictions of the event after each one: logits of its activity, the scaled logarithm of the time to it, and logits of
    those of its attributes that are predicted."""

    logits: Float[Tensor, "B T A"]
    gaps: Float[Tensor, "B T"]
    attributes: tuple[Float[Tensor, "B T V"], ...]


class EventModel(nn.Module):
    """Embeddings of an event's activity and attributes beside its features of time, recurrent layers, and a linear map for each
    thing that is predicted.

    - `recurrent`: the layers. What they read beyond the `times` features of time is shared evenly by the embeddings.
    - `activities`: how many there are, counting "another"; the end of a case is one more that can be predicted.
    - `values`: of each attribute, how many values there are. `predicted`: the numbers of those that are predicted too.
    - `baseline`: counts of training cases. `log_probabilities` mixes them in by the buffer `share`; the network itself and its
      loss know nothing of them.

    ```python
    model = rc.models.EventModel(rc.Recurrent("gru", 38, 32), activities=10, values=[4], times=6)
    activities, attributes = torch.randint(10, (2, 7)), torch.randint(4, (2, 7, 1))
    logits, gaps, _ = model(activities, torch.zeros(2, 7, 6), attributes, torch.tensor([7, 5]))     # [B, T, 11], [B, T]
    ```
    """

    share: Tensor

    def __init__(
        self,
        recurrent: Recurrent,
        activities: int,
        values: Sequence[int] = (),
        times: int = 0,
        *,
        predicted: Sequence[int] = (),
        baseline: MarkovTables | None = None,
    ):
        super().__init__()
        size, rest = divmod(recurrent.input_size - times, 1 + len(values))
        if rest or size < 1:
            raise OptionError(
                f"the recurrent layers read {recurrent.input_size} numbers: after {times} features of time they cannot be "
                f"shared evenly by {1 + len(values)} embeddings. Give the layers an input_size that can."
            )
        self.activity = nn.Embedding(activities, size)
        self.attributes = nn.ModuleList(nn.Embedding(count, size) for count in values)
        self.recurrent = recurrent
        self.dropout = VariationalDropout(recurrent.dropout.p)
        self.output = nn.Linear(recurrent.output_size, activities + 1)
        self.gap = nn.Linear(recurrent.output_size, 1)
        self.predicted = nn.ModuleList(nn.Linear(recurrent.output_size, values[k]) for k in predicted)
        self.baseline = baseline
        if baseline is not None:
            self.register_buffer("share", torch.zeros(()))

    def embed(
        self, what: Int[Tensor, "B T"], times: Float[Tensor, "B T F"], attributes: Int[Tensor, "B T K"]
    ) -> Float[Tensor, "B T D"]:
        """The vectors that the recurrent layers read."""
        further = [table(attributes[..., k]) for k, table in enumerate(self.attributes)]
        return torch.cat([self.activity(what), *further, times.to(self.output.weight.dtype)], dim=-1)

    def forward(
        self,
        what: Int[Tensor, "B T"],
        times: Float[Tensor, "B T F"],
        attributes: Int[Tensor, "B T K"],
        lengths: Int[Tensor, " B"],
    ) -> Following:
        trace = self.recurrent(self.embed(what, times, attributes), None, lengths)
        hidden = self.dropout(trace.outputs.transpose(0, 1)).transpose(0, 1)
        return Following(self.output(hidden), self.gap(hidden)[..., 0], tuple(each(hidden) for each in self.predicted))

    def log_probabilities(
        self, logits: Float[Tensor, "B T A"], what: Int[Tensor, "B T"], *, alone: bool = False
    ) -> Float[Tensor, "B T A"]:
        """log P of what follows each event, in float64: of the network and its baseline together, or of the network alone."""
        logs = logits.double().log_softmax(-1)
        if alone or self.baseline is None or not self.share:
            return logs
        return mixed(logs, self.baseline(what), self.share.double())
