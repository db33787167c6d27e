"""Naive Bayes on how often a sequence has each token: what a network that classifies tokens is compared and combined with."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recurra.types import Float, Int


class BagOfTokens(nn.Module):
    """log P(class) of a sequence as a set: order is lost.

    P(class) Π P(token | class), from how often each class has each token in training data and one more of each. Tokens are not as
    independent as that has it: the logarithm is divided by the temperature that gives each training sequence the highest
    probability, found without it.

    - `vocabulary_size`, `classes`: how many there are. `count`: how many sequences there are to learn from.

    `held_out`: log P(class) of each of them, found without it; `rows`: their numbers, which are all.

    ```python
    bag = rc.models.BagOfTokens(vocabulary_size=3, classes=2, count=2)
    bag.fit(torch.tensor([0, 1, 2, 2]), torch.tensor([2, 2]), torch.tensor([0, 1]))
    bag(torch.tensor([[0, 1]]), torch.tensor([2])).exp()                # [1, 2]
    ```
    """

    tokens: Tensor
    prior: Tensor
    temperature: Tensor
    held_out: Tensor
    rows: Tensor

    def __init__(self, vocabulary_size: int, classes: int, count: int):
        super().__init__()
        self.register_buffer("tokens", torch.zeros(classes, vocabulary_size))
        self.register_buffer("prior", torch.zeros(classes))
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("rows", torch.arange(count))
        self.register_buffer("held_out", torch.zeros(count, classes))

    def forward(self, inputs: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B C"]:
        inside = torch.arange(inputs.shape[1], device=inputs.device) < lengths.to(inputs.device)[:, None]
        found = torch.where(inside[..., None], self.tokens.T[inputs.long()], 0).sum(1)
        return ((self.prior + found) / self.temperature).log_softmax(-1)

    @torch.no_grad()
    def fit(
        self, values: Int[Tensor, " M"], lengths: Int[Tensor, " N"], targets: Int[Tensor, " N"], seed: int = 0
    ) -> None:
        """Learn from sequences, all in one line. Nothing is drawn from the seed."""
        C, V = self.tokens.shape
        counts = torch.zeros(C, V, dtype=torch.float64)
        counts.view(-1).index_add_(
            0, targets.repeat_interleave(lengths) * V + values.long(), torch.ones(len(values), dtype=torch.float64)
        )
        seen, totals = torch.bincount(targets, minlength=C).double(), counts.sum(1)
        self.tokens.copy_(((counts + 1) / (totals + V)[:, None]).log())
        self.prior.copy_(((seen + 1) / (seen + 1).sum()).log())
        left_out = torch.empty(len(targets), C, dtype=torch.float64)
        for k, (part, label) in enumerate(zip(values.long().split(lengths.tolist()), targets.tolist(), strict=True)):
            kinds, often = part.unique(return_counts=True)
            among = counts[:, kinds]
            among[label] -= often
            sizes, others = totals.clone(), seen.clone()
            sizes[label] -= len(part)
            others[label] -= 1
            left_out[k] = ((among + 1) / (sizes + V)[:, None]).log() @ often.double() + (others + 1).log()
        temperatures = [2 ** (k / 2) for k in range(-2, 17)]
        best = min(
            temperatures, key=lambda t: float(cross_entropy(left_out / t, targets)) if len(targets) else math.inf
        )
        self.temperature.fill_(best)
        self.held_out.copy_((left_out / best).log_softmax(-1))
