"""How well a model predicts: the mean loss over all steps that count, and for tokens perplexity, bits and accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recurra.data.batches import Batch, Batches
from recurra.data.transfer import send
from recurra.models.combined import WITH_ALL, choose_safely, gains
from recurra.models.sequence import SequenceModel
from recurra.training.distributed import Ranks
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.training.soundness import enough_memory
from recurra.training.truncation import Loss
from recurra.types import Float, Int, State

TIE = 1e-6
"""What a network's own nats count where its baseline predicts alone."""
CHUNK = 512
"""How many steps are run at a time."""


@dataclass(frozen=True)
class Score:
    """`mean` is the loss of a step on average: nats per token for a language model; perplexity is e to that."""

    mean: float
    tokens: int
    accuracy: float | None = None

    @property
    def nats(self) -> float:
        return self.mean

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.mean, 700))

    @property
    def bits(self) -> float:
        return self.mean / math.log(2)


class Tally:
    """Losses and hits of many batches as one score."""

    def __init__(self, loss: Loss):
        self.loss = loss
        self.sums: Tensor | float = (
            0.0  # loss and hits, where the predictions are: nobody waits for them before the end
        )
        self.steps = 0

    @torch.no_grad()
    def add(self, predicted: torch.Tensor, batch: Batch) -> None:
        """The predictions of one batch."""
        weights = batch_weights(batch, "mean", predicted.device, torch.float32)
        targets = send(batch.targets, predicted.device)
        loss = self.loss(predicted, targets, weights.to(predicted.dtype)).double()
        hits = torch.full_like(loss, math.nan)  # of numbers there are none
        if not targets.is_floating_point():
            hits = ((predicted.argmax(-1) == targets) * (weights > 0)).sum().double()
        self.sums = self.sums + torch.stack([loss, hits])
        self.steps += batch.tokens

    def score(self, ranks: Ranks, device: torch.device) -> Score:
        mine = torch.zeros(3, dtype=torch.float64, device=device)
        mine[:2] += self.sums
        mine[2] += self.steps
        loss, hits, steps = ranks.sum(mine).tolist()
        return Score(loss / max(1, steps), int(steps), None if math.isnan(hits) else hits / max(1, steps))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; the model is left in its mode."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), enough_memory():  # attention over two long sequences takes their product
            yield
    finally:
        model.train(training)


def evaluate_whole(
    model: Any, batches: Batches, predict: Callable[[Any], Tensor], ranks: Ranks = Ranks(), loss: Loss = weighted_nll
) -> Score:
    """One pass over batches that are read whole: pairs, cases, lines with a class. The model is left in its mode.

    - `predict`: what the model predicts for a batch. Each of several ranks gives its part, and gets the score of all.
    """
    tally = Tally(loss)
    with evaluating(model):
        for batch in batches.one_pass():
            if len(batch.inputs):  # the last examples may be fewer than the ranks
                tally.add(predict(batch), batch)
    return tally.score(ranks, model.output.weight.device)


def evaluate(
    model: SequenceModel, batches: Batches | Iterable[Batch], loss: Loss = weighted_nll, ranks: Ranks = Ranks()
) -> Score:
    """One pass over the data; in batch rows the state is carried from chunk to chunk. The model is left in its mode.

    Each of several ranks gives a batches of its own part, and gets the score of all.

    ```python
    model = rc.models.LanguageModel(3, rc.Recurrent("gru", 8, 8))
    rc.training.evaluate(model, rc.data.Chunks(torch.tensor([0, 1, 2] * 100), batch_size=2, length=10))
    ```
    """
    tally = Tally(loss)
    with evaluating(model):
        for chunk, predicted in _read(model, batches.one_pass() if isinstance(batches, Batches) else batches):
            tally.add(predicted, chunk)
    return tally.score(ranks, model.output.weight.device)


def log_probabilities(model: SequenceModel, batches: Batches, places: Batches) -> Float[Tensor, " N"]:
    """log P of every target, in the order of the data.

    `places` is a batches of the same shape over numbers: its targets predict where each belongs, counted from 1.
    """
    values: list[Tensor] = []
    found: list[Tensor] = []
    with evaluating(model):
        for logs, numbers, weights in target_logs(model, batches, places):
            values.append(logs[weights > 0])
            found.append(numbers[weights > 0] - 1)
    return torch.cat(values)[torch.cat(found).argsort()]


def target_logs(
    model: SequenceModel, batches: Batches, places: Batches
) -> Iterator[tuple[Float[Tensor, "B T"], Int[Tensor, "B T"], Float[Tensor, "B T"]]]:
    """Chunk by chunk: log P of the targets, where each belongs (`places`, as for `log_probabilities`), and its weight, which is 0
    past an end."""
    where = (chunk.targets for place in places.one_pass() for chunk in _chunks(place))
    for (chunk, predicted), numbers in zip(_read(model, batches.one_pass()), where, strict=True):
        targets = chunk.targets.to(predicted.device)
        logs = predicted.double().log_softmax(-1).gather(-1, targets[..., None])[..., 0].cpu()
        yield logs, numbers, batch_weights(chunk, "mean", torch.device("cpu"), torch.float64)


def fit_share(
    batches: Iterable[tuple[Float[Tensor, "B T"], Float[Tensor, "B T"], Float[Tensor, "B T"]]],
    how: str,
    ranks: Ranks = Ranks(),
) -> tuple[float, float]:
    """The share of a baseline in its mixture with a network, and the mixture's nats per step; where the baseline is alone, with
    `TIE` times the network's.

    - `batches`: log P of the targets by the network and by the baseline, and 1 for each step that counts, 0 for others; a row
      is an example. `how`: `baseline` takes the share with the highest gain. `auto` takes it where its gain over the baseline
      alone is above one standard error, and else the baseline alone; or the network alone, where that gain is as sure and the
      mixture gains less than two standard errors over it.
    """
    W = len(WITH_ALL)
    sums = torch.zeros(4 * W + 3, dtype=torch.float64)
    for first, second, inside in batches:
        each = (gains(first, second, shares=WITH_ALL) * inside).sum(-1)
        each = torch.cat([each, each - each[-1]])
        found = [each.sum(1), each.square().sum(1), torch.stack([(first * inside).sum(), inside.sum()])]
        sums += torch.cat([*found, first.new_tensor([len(first)])]).double().cpu()
    gained, squares, (logs, steps, rows) = ranks.sum(sums).split([2 * W, 2 * W, 3])
    share = choose_safely(gained.view(2, W), squares.view(2, W), max(1, int(rows)), how)
    nats = -float(logs + gained[WITH_ALL.index(share)]) / max(1.0, float(steps))
    # the baseline alone is as good at every validation: then the network still decides which checkpoint is the best
    return share, nats if share < 1 else nats - TIE * float(logs) / max(1.0, float(steps))


def _read(model: SequenceModel, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Tensor]]:
    """What the model predicts, chunk by chunk; the state is carried until a batch is fresh."""
    device = model.output.weight.device
    state: State | None = None
    for batch in batches:
        state = None if batch.fresh else state
        for chunk in _chunks(batch):
            predicted, state = model(send(chunk.inputs, device), state, chunk.lengths)
            yield chunk, predicted


def _chunks(batch: Batch) -> Iterator[Batch]:
    """The batch, cut in time: memory does not grow with the length of sequences."""
    B, T = batch.inputs.shape[:2]
    for start in range(0, T if B else 0, CHUNK):
        part = slice(start, start + CHUNK)
        lengths = None if batch.lengths is None else (batch.lengths - start).clamp(0, min(CHUNK, T - start))
        scored = None if batch.scored is None else batch.scored[:, part]
        yield Batch(batch.inputs[:, part], batch.targets[:, part], lengths, fresh=batch.fresh, scored=scored)


def evaluate_window(model: nn.Module, batches: Batches) -> Score:
    """The same for the fixed-window model, which carries its last tokens instead of a state."""
    tally = Tally(weighted_nll)
    past = None
    with torch.no_grad():
        for batch in batches.one_pass():
            logits, past = model(batch.inputs, None if batch.fresh else past)
            tally.add(logits, batch)
    return tally.score(Ranks(), torch.device("cpu"))
