"""How well labels are given: how often each class was taken for each, accuracy, macro F1, and nats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate

from recurra.data.batches import Batch
from recurra.data.labelled_batches import LabelledSequences
from recurra.data.transfer import send
from recurra.models.labelling import Labeller
from recurra.models.naive_bayes import naive_bayes
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluating
from recurra.types import Float, Int


@dataclass(frozen=True, eq=False)
class LabelScores:
    """`counts[i, j]`: how often class i was taken for class j. `nats`: the mean of −log P(label)."""

    counts: Int[Tensor, "C C"]
    nats: float

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        return float(self.counts.diagonal().sum()) / max(1, self.total)

    @property
    def macro_f1(self) -> float:
        """The mean over classes of 2 · hits / (true + predicted); classes that are neither true nor predicted are left out."""
        both = self.counts.sum(0) + self.counts.sum(1)
        scores = 2 * self.counts.diagonal().double() / both.clamp(min=1)
        return float(scores[both > 0].mean())

    @property
    def scores(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "macro F1": self.macro_f1, "nats": self.nats}


def label_loss(model: Labeller, batch: Batch) -> Float[Tensor, ""]:
    """Σ −log P(label) over the sequences of a batch, or over their true steps; of an ensemble the mean over its networks, each of
    which leaves the rows of its own fold out."""
    members = model.members
    total = torch.zeros((), dtype=model.output.weight.dtype, device=model.output.weight.device)
    for k, member in enumerate(members):
        logits, targets = scored(model, batch, member)
        if batch.folds is None:
            total = total + cross_entropy(logits, targets, reduction="sum")
        else:
            learned = send(batch.folds != k, logits.device).to(logits) * len(members) / (len(members) - 1)
            total = total + (cross_entropy(logits, targets, reduction="none") * learned).sum()
    return total / len(members)


def scored(
    model: Labeller, batch: Batch, read: Callable[..., Tensor] | None = None
) -> tuple[Float[Tensor, "M C"], Int[Tensor, " M"]]:
    """Scores and labels of what counts: each sequence, or each true step, in order. `read`: a part of the model instead."""
    device = model.output.weight.device
    here = batch.to(device)
    logits, targets = (read or model)(here.inputs, here.lengths).flatten(0, -2), here.targets.flatten()
    if here.targets.ndim == 1 or here.lengths is None:
        return logits, targets
    inside = torch.arange(here.targets.shape[1]) < here.lengths[:, None]
    places = send(inside.flatten().nonzero()[:, 0], device)
    return logits[places], targets[places]


@torch.no_grad()
def evaluate_labels(model: Labeller, batches: LabelledSequences, ranks: Ranks = Ranks()) -> LabelScores:
    """One pass over the data. The model is left in its mode. Each of several ranks gives its part, and gets the score of all."""
    device, C = model.output.weight.device, model.output.out_features
    counts, nats = torch.zeros(C, C, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for logits, targets in _scored_batches(model, batches):
        pairs = targets * C + logits.argmax(-1)
        counts += torch.bincount(pairs.cpu(), minlength=C * C).view(C, C)
        nats += cross_entropy(logits.double(), targets, reduction="sum").cpu()
    flat = ranks.sum(torch.cat([counts.flatten(), nats]).to(device)).cpu()
    total = max(1.0, float(flat[:-1].sum()))
    return LabelScores(flat[:-1].view(C, C).round().long(), float(flat[-1]) / total)


@torch.no_grad()
def predict_labels(model: Labeller, batches: LabelledSequences) -> list[Float[Tensor, "n C"]]:
    """P(class) of each sequence, in the order in which they were given: one row, or with tags one for each step."""
    found: list[Tensor] = []
    for batch, (logits, _) in zip(batches.one_pass(), _scored_batches(model, batches), strict=True):
        sizes = batch.lengths.tolist() if batches.per_step and batch.lengths is not None else [1] * len(batch.inputs)
        found += logits.double().softmax(-1).cpu().split(sizes)
    return [found[k] for k in batches.rows.argsort().tolist()]


def _scored_batches(model: Labeller, batches: LabelledSequences) -> Iterator[tuple[Tensor, Tensor]]:
    with evaluating(model):
        for batch in batches.one_pass():
            if len(batch.inputs):  # a rank may have none of the last rows
                yield scored(model, batch)


@torch.no_grad()
def class_logs(model: Labeller, batches: LabelledSequences, read: Callable[[Batch], Tensor]) -> Float[Tensor, "N C"]:
    """log P(class) of each sequence, in the order in which they were given, by a part of the model."""
    device = model.output.weight.device
    with evaluating(model):
        found = [read(batch.to(device)).double().log_softmax(-1).cpu() for batch in batches.one_pass()]
    return torch.cat(found)[batches.rows.argsort()]


def score_logs(logs: Float[Tensor, "N C"], targets: Int[Tensor, " N"]) -> LabelScores:
    """The scores of log P(class) of each sequence."""
    C = logs.shape[1]
    counts = torch.bincount(targets * C + logs.argmax(1), minlength=C * C).view(C, C)
    return LabelScores(counts, float(cross_entropy(logs, targets)))


def nearest(train: LabelledSequences, test: LabelledSequences, *, same: bool = False) -> Int[Tensor, " N"]:
    """The class of the nearest training series: Euclidean, each channel standardised in each series, all stretched to one length.

    - `same`: both are the same series, and each looks among the others.
    """
    a, b = (_stretched(each) for each in (train, test))
    distances = torch.cdist(b, a)
    if same:
        distances.fill_diagonal_(math.inf)
    return train.targets[distances.argmin(1)]


def _stretched(batches: LabelledSequences, steps: int = 128) -> Float[Tensor, "N S"]:
    rows = []
    for each in batches.values.split(batches.lengths.tolist()):
        series = each.double().T[None] if len(each) else each.new_zeros(1, each.shape[1], 1).double()
        series = (series - series.mean(-1, keepdim=True)) / (series.std(-1, keepdim=True, correction=0) + 1e-6)
        rows.append(interpolate(series, steps, mode="linear", align_corners=True).flatten())
    return torch.stack(rows)


def bag_of_tokens(train: LabelledSequences, test: LabelledSequences, vocabulary_size: int, classes: int) -> LabelScores:
    """What a sequence says as a set: naive Bayes from how often each class has each token, one more of each; order is lost."""
    tokens, seen = torch.zeros(classes, vocabulary_size, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)
    for counts, labels in _counted(train, vocabulary_size):
        tokens.index_add_(0, labels, counts)
        seen += torch.bincount(labels, minlength=classes)
    logs, prior = naive_bayes(tokens, seen)
    confused, nats = torch.zeros(classes * classes, dtype=torch.int64), 0.0
    for counts, labels in _counted(test, vocabulary_size):
        scores = prior + counts @ logs.T
        confused += torch.bincount(labels * classes + scores.argmax(1), minlength=classes * classes)
        nats += float(cross_entropy(scores, labels, reduction="sum"))
    return LabelScores(confused.view(classes, classes), nats / max(1, int(confused.sum())))


def _counted(batches: LabelledSequences, size: int) -> Iterator[tuple[Float[Tensor, "B V"], Int[Tensor, " B"]]]:
    """How often each sequence has each token, and its label."""
    for batch in batches.one_pass():
        B, T = batch.inputs.shape
        inside = torch.ones(B, T) if batch.lengths is None else torch.arange(T) < batch.lengths[:, None]
        counts = torch.zeros(B, size, dtype=torch.float64).scatter_add_(1, batch.inputs.long(), inside.double())
        yield counts, batch.targets


def most_frequent(seen: Int[Tensor, " C"], counts: Int[Tensor, "C C"]) -> LabelScores:
    """What always saying the most frequent class of training data gives; its nats are those of the classes' shares there.

    `seen`: how often training data has each class; `counts`: of any model on the evaluated data, for how often it has each.
    """
    true = counts.sum(1)
    predicted = torch.zeros_like(counts)
    predicted[:, seen.argmax()] = true
    shares = seen.double().clamp(min=0.5) / seen.sum()
    return LabelScores(predicted, float(-(true.double() * shares.log()).sum() / true.sum().clamp(min=1)))
