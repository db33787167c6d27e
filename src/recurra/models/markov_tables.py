"""`MarkovTables`: a Markov model inside a network's weights, so that a run can predict with both and needs no data for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recurra.models.markov import Markov
from recurra.types import Float, Int


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
        for n, level in enumerate(counted.levels):
            for name, values in (("keys", level.keys), ("share", level.share), ("rest", level.rest)):
                self.get_buffer(f"{name}_{n}").copy_(torch.from_numpy(values))
        return self

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """log P of the token after each step, given those before it; before the first there is nothing."""
        (B, T), V = tokens.shape, self.vocabulary_size
        line = torch.cat([tokens.new_full((B, 1), V), tokens], dim=1)
        contexts = [torch.zeros_like(line)]
        for n in range(self.order):
            before = torch.cat([contexts[-1][:, :1], contexts[-1][:, :-1]], dim=1)  # the first stands after more of V
            contexts.append(torch.where(before >= 0, self._find(n, before * (V + 1) + line), -1))
        unlike, places = torch.stack(contexts, dim=-1)[:, 1:].reshape(B * T, -1).unique(dim=0, return_inverse=True)
        every = torch.arange(V, device=tokens.device)
        p = torch.full((len(unlike), V), 1 / V, dtype=torch.float64, device=tokens.device)
        for n in range(self.order + 1):
            known = unlike[:, n] >= 0
            context = unlike[known, n, None]
            found = self._find(n, context * (V + 1) + every)
            share = torch.where(found >= 0, self.get_buffer(f"share_{n}")[found], 0)
            p[known] = self.get_buffer(f"rest_{n}")[context] * p[known] + share
        return p.log()[places].view(B, T, V)

    def _find(self, n: int, wanted: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Where each run of n + 1 tokens is among the keys; -1 where it is not."""
        keys = self.get_buffer(f"keys_{n}")
        places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return torch.where(keys[places] == wanted, places, -1)
