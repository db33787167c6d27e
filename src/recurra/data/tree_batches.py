"""Batches of trees: the order in which a network sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch

from recurra.data.batches import Batch, Examples, Order
from recurra.data.forest import Forest
from recurra.errors import DataError


@dataclass(frozen=True, kw_only=True)
class TreeBatch(Batch):
    """Some trees. `inputs` and `targets` are one row: the tokens and labels of all nodes; nodes with a label are `scored`."""

    forest: Forest


class Trees(Examples):
    """Many trees with labels, those of similar size together; a batch counts its labelled nodes."""

    def __init__(self, forest: Forest, batch_size: int, **order: Unpack[Order]):
        super().__init__(forest.sizes, batch_size, **order)
        self.forest = forest
        ends = torch.cat([torch.zeros(1, dtype=torch.int64), (forest.labels >= 0).cumsum(0)])
        self._labelled = ends[forest.roots + forest.sizes] - ends[forest.roots]
        if bool((self._labelled == 0).any()):
            first = int((self._labelled == 0).int().argmax())
            raise DataError(f"tree {first + 1} has no label to learn from. Label its root, or leave it out.")

    def _take(self, rows: npt.NDArray[np.int64]) -> TreeBatch:
        forest = self.forest.take(self._share(rows))
        return TreeBatch(
            forest.tokens[None],
            forest.labels.clamp(min=0)[None],
            None,
            fresh=True,
            scored=(forest.labels >= 0).float()[None],
            all_rows=len(rows),
            all_tokens=int(self._labelled[torch.from_numpy(rows)].sum()),
            forest=forest,
        )
