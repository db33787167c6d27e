"""`MarkovTables`: a Markov model inside a network's weights, so that a run can predict with both and needs no data for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recurra.errors import DataError, quoted
from recurra.models.markov import Level, Markov
from recurra.types import Float, Int

MOST_RUNS = 20_000_000
"""Of all lengths together, kept with a model: 240 MB, and what a header may claim."""

AT_ONCE = 10**6
"""Probabilities that are computed at a time."""


def check_sizes(sizes: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """Refuse the sizes of counts in a `vocabulary.json` that no counts have."""
    contexts = [1, *(each[0] for each in sizes if each)]  # of runs of n + 1 tokens: the runs of n
    if not sizes or not all(
        len(each) == 2 and each[0] > 0 and each[1] == n for each, n in zip(sizes, contexts, strict=False)
    ):
        raise DataError(
            f"vocabulary.json: markov has the sizes {quoted(sizes)}, which no counts have. Put back a copy of it."
        )
    if sum(runs for runs, _ in sizes) > MOST_RUNS:
        raise DataError(
            f"model.combine: counts of more than {MOST_RUNS:,} runs of tokens are not kept with a model. Set "
            "model.combine=none, or read less (data.limit)."
        )
    return sizes


class MarkovTables(nn.Module):
    """The tables of a `Markov` model as buffers: the probability of every token after each step of a batch.

    - `sizes`: of each length of runs, how many runs and how many contexts there are (`Markov.sizes`).

    ```python
    counted = rc.models.Markov.fit([torch.tensor([0, 1, 0, 1, 1])], order=1, vocabulary_size=2)
    tables = rc.models.MarkovTables(counted.sizes, 2).fill(counted)
    tables(torch.tensor([[0, 1, 0]])).exp()                       # [1, 3, 2]: sums to 1
    ```
    """

    def __init__(self, sizes: Sequence[Sequence[int]], vocabulary_size: int):
        super().__init__()
        self.order, self.vocabulary_size = len(sizes) - 1, vocabulary_size
        for n, (runs, contexts) in enumerate(sizes):
            self.register_buffer(f"keys_{n}", torch.zeros(runs, dtype=torch.int64))
            self.register_buffer(f"share_{n}", torch.zeros(runs))
            self.register_buffer(f"rest_{n}", torch.zeros(contexts))

    def fill(self, counted: Markov) -> MarkovTables:
        """Take over the numbers of a model of the same sizes."""
        if counted.sizes != self.sizes:
            raise DataError(
                "the counts of this text have other sizes than those that were saved: it has changed since. Resume with the text "
                "that the run began with, or train anew."
            )
        for n, level in enumerate(counted.levels):
            for name, values in (("keys", level.keys), ("share", level.share), ("rest", level.rest)):
                self.get_buffer(f"{name}_{n}").copy_(torch.from_numpy(values))
        return self

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """As `Markov.sizes`."""
        levels = range(self.order + 1)
        return [(len(self.get_buffer(f"keys_{n}")), len(self.get_buffer(f"rest_{n}"))) for n in levels]

    def to_markov(self) -> Markov:
        """The model that was counted."""
        kept = ("keys", "share", "rest")
        levels = [[self.get_buffer(f"{name}_{n}").cpu().numpy() for name in kept] for n in range(self.order + 1)]
        return Markov([Level(*each) for each in levels], self.vocabulary_size)

    def initial(self, batch_size: int) -> Int[Tensor, "B K"]:
        """What stands before the first token: nothing, K = `order` times."""
        device = self.get_buffer("keys_0").device
        return torch.full((batch_size, self.order), self.vocabulary_size, device=device)

    def forward(self, tokens: Int[Tensor, "B T"], past: Int[Tensor, "B K"] | None = None) -> Float[Tensor, "B T V"]:
        """log P of the token after each step, given those before it, and the K = `order` tokens before these (`initial`)."""
        (B, T), V = tokens.shape, self.vocabulary_size
        before_all = self.initial(B) if past is None else past
        line = torch.cat([before_all, tokens], dim=1)
        contexts = [torch.zeros_like(line)]
        for n in range(self.order):
            before = torch.cat([contexts[-1][:, :1], contexts[-1][:, :-1]], dim=1)  # the first stands after more of V
            contexts.append(torch.where(before >= 0, self._find(n, before * (V + 1) + line), -1))
        unlike, places = (
            torch.stack(contexts, dim=-1)[:, self.order :].reshape(B * T, -1).unique(dim=0, return_inverse=True)
        )
        p = torch.cat([self._probabilities(each) for each in unlike.split(max(1, AT_ONCE // (V + 1)))])
        return p.log()[places].view(B, T, V)

    def _probabilities(self, contexts: Int[Tensor, "N L"]) -> Float[Tensor, "N V"]:
        """Of the token after contexts: the places of their runs of 0 to `order` tokens, -1 of those that were never counted."""
        V = self.vocabulary_size
        p = torch.full((len(contexts), V + 1), 1 / V, dtype=torch.float64, device=contexts.device)
        for n, places in enumerate(contexts.unbind(1)):
            (rows,) = (places >= 0).nonzero(as_tuple=True)
            first = places[rows] * (V + 1)
            keys, share, rest = (self.get_buffer(f"{name}_{n}") for name in ("keys", "share", "rest"))
            p[rows] *= rest[places[rows], None]
            low, high = (torch.searchsorted(keys, border) for border in (first, first + V + 1))
            counts = high - low  # the runs of a context stand side by side
            owner = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
            entry = torch.arange(len(owner), device=rows.device) + (low - counts.cumsum(0) + counts)[owner]
            p[rows[owner], keys[entry] - first[owner]] += share[entry]
        return p[:, :V]

    def _find(self, n: int, wanted: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Where each run of n + 1 tokens is among the keys; -1 where it is not."""
        keys = self.get_buffer(f"keys_{n}")
        places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return torch.where(keys[places] == wanted, places, -1)
