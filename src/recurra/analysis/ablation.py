"""What a language model loses without one of its units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.analysis.jacobians import StepMap
from recurra.analysis.neurons import Unit
from recurra.models.language import LanguageModel
from recurra.types import Float, Int


@dataclass(frozen=True)
class Ablation:
    """By how many nats per token the loss rises with a unit held at `value`: where a label holds, and where it does not."""

    unit: Unit
    value: float
    where: float
    elsewhere: float

    def __str__(self) -> str:
        return f"without {self.unit}: {self.where:+.4f} nats where the label holds, {self.elsewhere:+.4f} elsewhere"


@torch.no_grad()
def losses(
    model: LanguageModel,
    inputs: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    held: Sequence[tuple[Unit, float]] = (),
) -> Float[Tensor, "K B T"]:
    """−log P of each target, step by step from the equations: first of the model as it is, then with each of the units in
    `held` at its value for everything that reads it.

    ```python
    model = rc.models.LanguageModel(5, rc.Recurrent("lstm", 8, 20))
    ids = torch.randint(5, (2, 30))
    intact, without = rc.analysis.losses(model, ids[:, :-1], ids[:, 1:], [(rc.analysis.Unit(0, False, "c", 17), 0.0)])
    ```
    """
    training = model.training
    model.eval()
    F, B, K = StepMap(model.recurrent, dtype=model.output.weight.dtype), len(inputs), 1 + len(held)
    for k, (unit, value) in enumerate(held, start=1):
        F.hold(unit.layer, unit.name, unit.index, value, rows=slice(k * B, (k + 1) * B))
    x = model.embed(inputs)
    s = F.pack(model.recurrent.initial_state(K * B))
    found = []
    for t in range(inputs.shape[1]):
        s = F(s, x[:, t].repeat(K, 1))
        logs = model.output(F.outputs(s)).log_softmax(-1)
        found.append(-logs.gather(-1, targets[:, t].repeat(K)[:, None])[:, 0])
    model.train(training)
    each_loss: Tensor = torch.stack(found, dim=-1).unflatten(0, (K, B))
    return each_loss
