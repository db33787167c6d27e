"""Batches of sequences with a label each, or with one for each step."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Examples, Order
from recurra.errors import DataError
from recurra.types import Int


class LabelledSequences(Examples):
    """Sequences of similar length together, in batches `[B, T]` of tokens or `[B, T, D]` of numbers.

    - `values`: all sequences in one line; `lengths`: how long each is.
    - `targets`: one for each sequence, `[N]`; or, with `per_step`, one for each value. A batch has `[B]` or `[B, T]`.

    - `folds`: which network of an ensemble does not learn from each sequence.

    What counts as a token of a batch is what has a label: a sequence, or a step. Batches of one pass come in
    another order than the examples: `rows` gives the number of each.
    """

    def __init__(
        self,
        values: Tensor,
        lengths: Int[Tensor, " N"],
        targets: Int[Tensor, " M"],
        batch_size: int,
        *,
        per_step: bool = False,
        folds: Int[Tensor, " N"] | None = None,
        **order: Unpack[Order],
    ):
        if not len(lengths):
            raise DataError("Batches of sequences were asked for, but there is no sequence. Give at least one.")
        super().__init__(lengths, batch_size, **order)
        self.values, self.targets, self.per_step, self.folds = values, targets, per_step, folds
        self._starts = lengths.cumsum(0) - lengths

    def shuffle_steps(self, seed: int) -> None:
        """Put the steps of every sequence into a random order: what is left of it as a set."""
        random = np.random.default_rng(seed % 2**64)
        self.values = self.values.clone()
        ends = self._lengths.cumsum(0).tolist()
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            self.values[start:end] = self.values[start:end][torch.from_numpy(random.permutation(end - start))]

    @property
    def lengths(self) -> Int[Tensor, " N"]:
        """How long each sequence is."""
        return self._lengths

    @property
    def rows(self) -> Int[Tensor, " N"]:
        """Which example each row of one pass is."""
        return torch.from_numpy(self._by_length())

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        share, lengths, width, total = self._deal(rows)
        steps = torch.arange(max(1, width))
        inside = steps < lengths[:, None]
        places = torch.where(inside, self._starts[share][:, None] + steps, 0)
        inputs = self._padded(self.values, places, inside)
        targets = self._padded(self.targets, places, inside) if self.per_step else self.targets[share]
        return Batch(
            inputs,
            targets,
            lengths,
            fresh=True,
            scored=None if self.per_step else torch.ones(len(share), 1),  # one label for all steps together
            all_rows=len(rows),
            all_tokens=total if self.per_step else len(rows),
            folds=None if self.folds is None else self.folds[share],
        )

    @staticmethod
    def _padded(values: Tensor, places: Int[Tensor, "B T"], inside: Tensor) -> Tensor:
        if not len(values):  # every sequence is empty
            return values.new_zeros(*places.shape, *values.shape[1:])
        return torch.where(inside.view(*inside.shape, *[1] * (values.ndim - 1)), values[places], 0)
