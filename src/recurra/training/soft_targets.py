"""Soft targets: a share of each target is the prediction of a Markov model that was counted on other sequences.

Which token follows in a training sequence is one draw, and a network that is large for its data learns the draws by heart. A
Markov model knows less but smooths better, so that both mixed predict best. Here the network learns that mixture itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.batches import Batch, Order, Sequences
from recurra.errors import OptionError
from recurra.models.markov import Markov
from recurra.models.markov_tables import MarkovTables
from recurra.types import Float, Int

FOLDS = 5
"""Parts of the sequences; what each part's steps are predicted by is counted in the others."""
MOST_NUMBERS = 10**8
"""Probabilities of all tokens at all steps that are kept in memory."""
AT_ONCE = 256
"""Sequences."""


class SoftSequences(Sequences):
    """Sequences whose targets are probabilities `[B, T, V]`: (1 − share) at the true token, and `share` of the prediction of a
    Markov model that was counted on other sequences.

    - `order`: of the Markov models that count.
    """

    def __init__(
        self,
        sequences: Sequence[Int[Tensor, " n"]],
        vocabulary_size: int,
        batch_size: int,
        *,
        share: float,
        order: int,
        **how: Unpack[Order],
    ):
        super().__init__(sequences, batch_size, **how)
        if len(self.ids) * vocabulary_size > MOST_NUMBERS:
            raise OptionError(
                f"soft_targets keeps {vocabulary_size:,} probabilities for each of {len(self.ids):,} tokens, more than "
                f"{MOST_NUMBERS:,} numbers. Set soft_targets=0, or read fewer tokens (data.tokens=char, data.limit)."
            )
        self.soft = share * predicted_by_others(sequences, order, vocabulary_size)
        self.soft[torch.arange(len(self.ids)), self.ids] += 1 - share

    def _take(self, rows: npt.NDArray[np.int64]) -> Batch:
        share, _, width, _ = self._deal(rows)
        places = self._starts[share][:, None] + torch.arange(1, width + 1)
        return replace(super()._take(rows), targets=self.soft[places.clamp(max=len(self.soft) - 1)])


def predicted_by_others(
    sequences: Sequence[Int[Tensor, " n"]], order: int, vocabulary_size: int
) -> Float[Tensor, "N V"]:
    """The probability of every token at every place of all sequences in one line, by the counts of the other folds; zeros where
    one begins."""
    sizes = torch.tensor([len(each) for each in sequences])
    starts = sizes.cumsum(0) - sizes
    found = torch.zeros(int(sizes.sum()), vocabulary_size)
    for fold in range(FOLDS):
        mine = list(range(fold, len(sequences), FOLDS))
        others = [each for k, each in enumerate(sequences) if k % FOLDS != fold]
        counted = Markov.fit(others or sequences, order, vocabulary_size)
        tables = MarkovTables(counted.sizes, vocabulary_size).double().fill(counted)
        for first in range(0, len(mine), AT_ONCE):
            rows = mine[first : first + AT_ONCE]
            read = torch.nn.utils.rnn.pad_sequence([sequences[k][:-1] for k in rows], batch_first=True)
            chances = tables(read).exp().float()
            for k, each in zip(rows, chances, strict=True):
                n = int(sizes[k]) - 1
                found[int(starts[k]) + 1 : int(starts[k]) + 1 + n] = each[:n]
    return found


def soft_nll(
    logits: Float[Tensor, "B T V"], targets: Float[Tensor, "B T V"], weights: Float[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Σ weight · Σ P(token) · −log P(token), with the targets' probabilities and the logits'."""
    losses = -(targets * logits.log_softmax(-1)).sum(-1)
    return (losses * weights.to(losses.dtype)).sum()
