"""The next event of a case, and the time to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell
from recurra.layers.dropout import VariationalDropout
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Int


class Following(NamedTuple):
    """What is said of the event after each one: logits of its activity, the scaled logarithm of the time to it, and logits of
    those of its attributes that are predicted."""

    logits: Float[Tensor, "B T A"]
    gaps: Float[Tensor, "B T"]
    attributes: tuple[Float[Tensor, "B T V"], ...]


class EventModel(nn.Module):
    """Embeddings of an event's activity and attributes beside its features of time, recurrent layers, and a linear map for each
    thing that is predicted.

    - `activities`: how many there are, counting "another"; the end of a case is one more that can be predicted.
    - `values`: of each attribute, how many values there are. `predicted`: the numbers of those that are predicted too.
    - `times`: how many features of time, none if 0.

    ```python
    model = EventModel(activities=10, values=[4], times=6, cell="gru", hidden_size=32)
    logits, gaps, _ = model(what, times, attributes, lengths)      # [B, T, 11], [B, T]
    ```
    """

    def __init__(
        self,
        activities: int,
        values: list[int],
        times: int,
        cell: Cell | str,
        hidden_size: int,
        *,
        predicted: Sequence[int] = (),
        embedding_size: int = 16,
        layers: int = 1,
        dropout: float = 0.0,
        engine: str = "auto",
    ):
        super().__init__()
        self.activity = nn.Embedding(activities, embedding_size)
        self.attributes = nn.ModuleList(nn.Embedding(count, embedding_size) for count in values)
        width = embedding_size * (1 + len(values)) + times
        self.recurrent = Recurrent(cell, width, hidden_size, layers=layers, dropout=dropout, engine=engine)
        self.dropout = VariationalDropout(dropout)
        self.output = nn.Linear(hidden_size, activities + 1)
        self.gap = nn.Linear(hidden_size, 1)
        self.predicted = nn.ModuleList(nn.Linear(hidden_size, values[k]) for k in predicted)

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
