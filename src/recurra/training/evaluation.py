"""How well a language model predicts: mean negative log-likelihood, perplexity, bits per symbol."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from recurra.data.batches import Stream
from recurra.models.language import LanguageModel
from recurra.training.objectives import step_weights, weighted_nll
from recurra.types import State


@dataclass(frozen=True)
class Score:
    """`nats` is the mean over all symbols; perplexity is e to that, bits are nats over ln 2."""

    nats: float
    tokens: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.nats, 700))

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)


@torch.no_grad()
def evaluate(model: LanguageModel, stream: Stream) -> Score:
    """One pass over the data; in lanes the state is carried from chunk to chunk. The model is left in its mode."""
    training = model.training
    model.eval()
    weight = model.output.weight
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    state: State | None = None
    for batch in stream.one_pass():
        lengths = None if batch.lengths is None else batch.lengths.to(weight.device)
        logits, state = model(batch.inputs.to(weight.device), None if batch.fresh else state, lengths)
        B, T = batch.inputs.shape
        weights = step_weights(B, T, lengths, "mean", weight.device, weight.dtype)
        total += weighted_nll(logits, batch.targets.to(weight.device), weights).double().cpu()
        tokens += batch.tokens
    model.train(training)
    return Score(float(total) / max(1, tokens), tokens)
