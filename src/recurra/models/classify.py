"""Many to one: which class a whole sequence belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from recurra.data.transfer import send
from recurra.errors import choose_from
from recurra.layers.bidirectional import to_front
from recurra.layers.front import within
from recurra.layers.recurrent import Recurrent
from recurra.models.combined import mixed
from recurra.models.labelling import Labeller
from recurra.types import Float, Int


def _mean(hidden: Tensor, inside: Tensor) -> Tensor:
    return hidden.sum(1) / inside.sum(1).clamp(min=1)


def _max(hidden: Tensor, inside: Tensor) -> Tensor:
    lowest = torch.finfo(hidden.dtype).min
    return torch.where(inside.any(1), hidden.masked_fill(~inside, lowest).amax(1), 0)


POOLED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": _mean, "max": _max}
HEADS = ("last", *POOLED, "attention")


class Classifier(Labeller):
    """One vector for a sequence, and a softmax over classes of a linear map of it.

    - `head`: what the vector is made of. `last`: the output after the last step (of the direction that runs backward: after
      the first). `mean`, `max`: of each unit over all steps. `attention`: a mean in which steps weigh
      softmax(v · tanh(A h_t)) (Yang et al. 2016).
    - `others`: more classifiers, trained beside this one; together they are an ensemble, whose probabilities are means.
    - `baseline`: another model of log P(class), which is not trained by gradients. Where it evaluates, the classifier mixes its
      probabilities in, with the weight `share`, which is 0 at first.
    - the rest as for `Labeller`.

    ```python
    model = rc.models.Classifier(rc.Recurrent("gru", 12, 64, bidirectional=True), classes=9, head="mean")
    scores = model(torch.randn(4, 29, 12), lengths=[29, 7, 12, 20])      # [4, 9]
    ```
    """

    share: Tensor

    def __init__(
        self,
        recurrent: Recurrent,
        classes: int,
        *,
        head: str = "mean",
        others: Sequence[Classifier] = (),
        baseline: Any = None,
        **options: Any,
    ):
        super().__init__(recurrent, classes, **options)
        self.head = choose_from("head", head, HEADS)
        H = self.recurrent.output_size
        self.attention = nn.Sequential(nn.Linear(H, H), nn.Tanh(), nn.Linear(H, 1)) if head == "attention" else None
        self.others, self.baseline = nn.ModuleList(others), baseline
        if baseline is not None:
            self.register_buffer("share", torch.zeros(()))

    def forward(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None = None, *, padding: str = "end"
    ) -> Float[Tensor, "B C"]:
        scores = self.alone(inputs, lengths, padding=padding)
        if self.training or self.baseline is None or not self.share:
            return scores
        logs = self.ask_baseline(inputs, lengths, padding=padding).to(scores)
        return mixed(scores.log_softmax(-1), logs, self.share.to(scores))

    @property
    def members(self) -> list[Callable[..., Tensor]]:
        return [self.score, *(each.score for each in self.others if isinstance(each, Classifier))]

    def alone(self, inputs: Tensor, lengths: Any = None, *, padding: str = "end") -> Float[Tensor, "B C"]:
        """What the network, or the ensemble, predicts without the baseline."""
        found = [member(inputs, lengths, padding=padding) for member in self.members]
        if len(found) == 1:
            return found[0]
        return torch.stack(found).log_softmax(-1).logsumexp(0) - math.log(len(found))

    def ask_baseline(self, inputs: Tensor, lengths: Any = None, *, padding: str = "end") -> Float[Tensor, "B C"]:
        """What the baseline predicts, log P(class)."""
        assert self.baseline is not None
        known = send(torch.as_tensor([inputs.shape[1]] * len(inputs) if lengths is None else lengths), inputs.device)
        first = to_front(inputs.transpose(0, 1), known).transpose(0, 1) if padding == "start" else inputs
        logs: Tensor = self.baseline(first, known)
        return logs

    def left_out(self, inputs: Tensor, lengths: Tensor | None, folds: Tensor | None) -> Float[Tensor, "B C"]:
        """What is predicted for each row by the one network of the ensemble that did not learn from it."""
        assert folds is not None
        assert lengths is not None
        scores = inputs.new_zeros(len(inputs), self.output.out_features, dtype=self.output.weight.dtype)
        for k, member in enumerate(self.members):
            rows = (folds == k).nonzero()[:, 0]
            if len(rows):
                scores[rows] = member(inputs[rows], lengths[rows.cpu()])
        return scores

    def score(
        self, inputs: Tensor, lengths: Int[Tensor, " B"] | Sequence[int] | None = None, *, padding: str = "end"
    ) -> Float[Tensor, "B C"]:
        """What this network predicts, without the others of an ensemble."""
        hidden, known = self.read(inputs, lengths, padding)
        pooled = self.pool_steps(hidden, known)
        scores: Tensor = self.output(dropout(pooled, self.dropout.p, self.training))
        return scores

    def pool_steps(self, hidden: Float[Tensor, "B T H"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B H"]:
        """One vector for each sequence; of one without steps, zeros."""
        inside = within(hidden.shape[1], lengths).transpose(0, 1)
        if self.head == "last":
            last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[-1])
            ahead, size = hidden.gather(1, last)[:, 0], self.recurrent.hidden_sizes[-1]
            return torch.cat([ahead[:, :size], hidden[:, 0, size:]], dim=-1)
        if self.attention is None:
            return POOLED[self.head](hidden, inside)
        scores = self.attention(hidden).masked_fill(~inside, torch.finfo(hidden.dtype).min)
        mean: Tensor = (scores.softmax(1) * hidden).sum(1)
        return mean
