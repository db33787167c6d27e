"""A network while it reads: every state and gate at every step, what it predicts there, and what it loses without a unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.ablation import losses
from recurra.analysis.neurons import Unit
from recurra.analysis.unit_study import Reading
from recurra.errors import choose_from
from recurra.layers.recurrent import Recurrent
from recurra.models.language import LanguageModel
from recurra.results import Result, Table
from recurra.types import Float

ALTERNATIVES = 5
"""Tokens that are named at every step as what may come next."""


@dataclass(frozen=True)
class Step:
    """What a model predicts at one step: the most probable tokens, and the probability of the one that came."""

    target: str
    probability: float
    alternatives: list[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class ThroughTime(Result):
    """Every state and gate of a network over one sequence, by name: `0.h` is the state h of the first layer, `[T, H]`.

    - `tokens`: the text of each token that is read; nothing where the network reads numbers.
    - `steps`: what is predicted after each token, of language models.

    ```python
    layer = rc.Recurrent("gru", 3, 8)
    rc.analysis.watch(layer, torch.randn(1, 50, 3)).plot(name="0.z")
    ```
    """

    values: dict[str, Float[Tensor, "T H"]]
    tokens: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def of(self, name: str) -> Float[Tensor, "T H"]:
        """One state or gate."""
        return self.values[choose_from("state or gate", name, self.values)]

    def table(self) -> Table:
        if self.steps:
            rows = [
                [repr(token), repr(step.target), f"{step.probability:.4f}", f"{step.alternatives[0][0]!r}"]
                for token, step in zip(self.tokens, self.steps, strict=True)
            ]
            return Table(["token", "next", "probability", "prediction"], rows)
        rows = [
            [name, str(len(v)), str(v.shape[1]), f"{v.min():.3f}", f"{v.max():.3f}"] for name, v in self.values.items()
        ]
        return Table(["state or gate", "steps", "units", "smallest", "largest"], rows)

    def to_json(self) -> dict[str, Any]:
        steps = [
            {"target": step.target, "probability": step.probability, "alternatives": dict(step.alternatives)}
            for step in self.steps
        ]
        return {
            "tokens": self.tokens,
            "steps": steps,
            "shapes": {name: list(v.shape) for name, v in self.values.items()},
        }

    def arrays(self) -> dict[str, Tensor]:
        return self.values


@torch.no_grad()
def watch(layer: Recurrent, x: Float[Tensor, "B T D"]) -> ThroughTime:
    """Every state and gate of a layer over the first of some sequences.

    ```python
    found = rc.analysis.watch(rc.Recurrent("lstm", 3, 8), torch.randn(1, 50, 3))
    found.of("0.c").shape                       # [50, 8]
    ```
    """
    return ThroughTime(_recorded(layer, x[:1])[0])


@torch.no_grad()
def watch_reading(model: LanguageModel, reading: Reading, names: list[str], most: int = ALTERNATIVES) -> ThroughTime:
    """A language model over the first text of a reading; `names`: the text of each token of the vocabulary."""
    length = int(reading.lengths[0])
    inputs, targets = reading.inputs[:1, :length], reading.targets[0, :length]
    training = model.training
    model.eval()
    try:
        values, outputs = _recorded(model.recurrent, model.embed(inputs))
        probabilities = model.output(outputs)[0].float().softmax(-1)
    finally:
        model.train(training)
    best = probabilities.topk(min(most, probabilities.shape[-1]))
    steps = [
        Step(names[target], float(row[target]), [(names[k], p) for k, p in zip(where, shares, strict=True)])
        for target, row, where, shares in zip(
            targets.tolist(), probabilities, best.indices.tolist(), best.values.tolist(), strict=True
        )
    ]
    return ThroughTime(values, reading.tokens(0), steps)


def _recorded(layer: Recurrent, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    training = layer.training
    layer.eval()
    try:
        trace = layer(x, record=True)
    finally:
        layer.train(training)
    assert trace.record is not None
    values = {
        f"{k}{'r' if d else ''}.{name}": each[0].cpu().float()
        for k, directions in enumerate(trace.record)
        for d, direction in enumerate(directions)
        for name, each in direction.items()
    }
    return values, trace.outputs


@dataclass(frozen=True, eq=False)
class AblatedText(Result):
    """−log P of each token of a text by the model as it is, and with one unit held at its mean.

    - `tokens`: those that are predicted, one for each loss.
    """

    unit: Unit
    value: float
    tokens: list[str]
    intact: Float[Tensor, " T"]
    without: Float[Tensor, " T"]

    @property
    def rise(self) -> float:
        """By how many nats per token the loss rises without the unit."""
        return float((self.without - self.intact).mean())

    def table(self) -> Table:
        rows = [
            [repr(t), f"{a:.4f}", f"{b:.4f}"] for t, a, b in zip(self.tokens, self.intact, self.without, strict=True)
        ]
        return Table(
            ["token", "intact", f"without {self.unit}"], rows, f"the loss rises by {self.rise:+.4f} nats per token"
        )

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"unit": str(self.unit), "rise": self.rise}


def ablate_text(model: LanguageModel, reading: Reading, unit: Unit, names: list[str]) -> AblatedText:
    """Hold a unit at its mean over the first text of a reading, for everything that reads it."""
    length = int(reading.lengths[0])
    inputs, targets = reading.inputs[:1, :length], reading.targets[:1, :length]
    value = float(reading.record(model).of(unit)[:length].mean())
    intact, without = losses(model, inputs, targets, [(unit, value)])
    return AblatedText(unit, value, [names[k] for k in targets[0].tolist()], intact[0], without[0])
