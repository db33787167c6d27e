"""A softmax over very many tokens that spends little on rare ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recurra.errors import OptionError
from recurra.types import Float, Int

SHARES = (1 / 15, 3 / 15)
"""Where the most frequent tokens end, and where the frequent ones, as shares of the vocabulary."""
LEAST = 30
"""A vocabulary of fewer tokens has no rare ones to save on."""


class AdaptiveSoftmax(nn.AdaptiveLogSoftmaxWithLoss):
    """Frequent tokens have logits of their own, rare ones in clusters, whose maps are smaller. Grave et al. 2017.

    Tokens are numbered by how often they occur, the most frequent first. What comes out are logarithms of probabilities, so
    that it stands wherever logits do. In training mode it lets through what it reads, and its own `weighted_nll` is the loss:
    for each target, only its cluster is computed.
    """

    borders: Tensor

    def __init__(self, input_size: int, output_size: int):
        if output_size < LEAST:
            raise OptionError(
                f"an adaptive softmax needs a vocabulary of at least {LEAST} tokens; got {output_size}. Use softmax=full."
            )
        borders = [round(output_size * share) for share in SHARES]
        # each cluster reads a quarter of what the one before reads, or less of a cut where a sixteenth would be nothing
        super().__init__(input_size, output_size, borders, div_value=min(4.0, max(1.0, input_size**0.5 - 0.01)))
        self.register_buffer("borders", torch.tensor(self.cutoffs[:-1]), persistent=False)

    @property
    def weight(self) -> Tensor:
        """Where the module is, and in which precision: the map to frequent tokens and clusters."""
        first: Tensor = self.head.weight
        return first

    def forward(self, x: Float[Tensor, "*N D"]) -> Tensor:  # type: ignore[override]
        if self.training:
            return x
        logs: Tensor = self.log_prob(x.reshape(-1, x.shape[-1]))
        return logs.view(*x.shape[:-1], -1)

    def weighted_nll(
        self, read: Float[Tensor, "B T D"], targets: Int[Tensor, "B T"], weights: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Σ weight · −log P(target): of the target itself, or of its cluster and of the target in it."""
        x, target, weight = read.flatten(0, 1), targets.flatten(), weights.reshape(-1)
        cluster = torch.bucketize(target, self.borders, right=True)
        first = torch.where(cluster == 0, target, self.shortlist_size + cluster - 1)
        total: Tensor = (self.head(x).log_softmax(-1).gather(1, first[:, None])[:, 0] * weight).sum()
        for k, tail in enumerate(self.tail):
            rows = (cluster == k + 1).nonzero()[:, 0]
            logs = tail(x[rows]).log_softmax(-1).gather(1, (target[rows] - self.cutoffs[k])[:, None])
            total = total + (logs[:, 0] * weight[rows]).sum()
        return -total
