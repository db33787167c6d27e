"""Batches of windows of series: at each step the values, and those of the step after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Examples, Order, windows
from recurra.errors import DataError
from recurra.types import Float, Int


class Windows(Examples):
    """Windows of values `[N, C]`, each `lengths[k]` steps from row `starts[k]` on; they may overlap. NaN is a missing value.

    - `skip`: so many first steps of each window are read but do not count.
    - `transpose`: in training, the channels of a window are moved up or down together by up to so many, as music is put into
      another key; never so far that a value which is not zero would fall off the end.
    """

    def __init__(
        self,
        values: Float[Tensor, "N C"],
        starts: Int[Tensor, " M"],
        lengths: Int[Tensor, " M"],
        batch_size: int,
        *,
        skip: int = 0,
        transpose: int = 0,
        **order: Unpack[Order],
    ):
        if not len(lengths) or int(lengths.min()) <= skip:
            raise DataError(f"Batches of windows need at least one, and {skip + 1} steps or more in each.")
        self.values, self.starts, self.skip, self.transpose = values, starts, skip, transpose
        self._numbers = torch.arange(len(values))
        super().__init__(lengths, batch_size, **order)

    @classmethod
    def of(cls, series: Sequence[Float[Tensor, "T C"]], batch_size: int, **how: Any) -> Windows:
        """Whole series, one window each."""
        sizes = torch.tensor([len(each) for each in series])
        return cls(torch.cat(list(series)), sizes.cumsum(0) - sizes, sizes - 1, batch_size, **how)

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        share, lengths, width, total = self._deal(rows)
        now, then = windows(self._numbers, self.starts[share], lengths, width)
        steps = torch.arange(width)
        inside = steps < lengths[:, None]
        return Batch(
            torch.where(inside[..., None], self.values[now], 0),
            torch.where(inside[..., None], self.values[then], 0),
            lengths,
            fresh=True,
            scored=(inside & (steps >= self.skip)).to(self.values.dtype) if self.skip else None,
            all_rows=len(rows),
            all_tokens=total - self.skip * len(rows),
        )

    def _batch(self, epoch: int, step: int) -> Batch:
        batch = super()._batch(epoch, step)
        if not self.transpose or not len(batch.inputs):
            return batch
        place = np.random.SeedSequence(self.seed % 2**64, spawn_key=(epoch, step))
        drawn = np.random.default_rng(place).integers(-self.transpose, self.transpose + 1, batch.all_rows)
        by = torch.from_numpy(np.array_split(drawn, self.world)[self.rank])
        used = (batch.inputs != 0).any(1) | (batch.targets != 0).any(1)
        C = used.shape[1]
        lowest, highest = used.int().argmax(1), C - 1 - used.flip(1).int().argmax(1)
        by = torch.maximum(torch.minimum(by, C - 1 - highest), -lowest)
        places = ((torch.arange(C) - by[:, None]) % C)[:, None]
        inputs, targets = (each.gather(2, places.expand_as(each)) for each in (batch.inputs, batch.targets))
        return replace(batch, inputs=inputs, targets=targets)
