"""Output recurrence: trained with the true outputs, all steps at once; evaluated with those, and with its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from recurra.data.batches import Batch, Batches
from recurra.data.machine import NAMES
from recurra.errors import OptionError, choose_from
from recurra.models.jordan import Jordan
from recurra.tasks.memory import TEST, TOKENS, VALID, MemoryData, MemorySettings, MemoryTask
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation, Examples
from recurra.tasks.task import Settings, Task, count_parameters
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.feeding import read_feeding
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import MOST, setting

OUTPUTS = {"washing-machine": len(NAMES), "parity": 2}
"""The tasks that output one of a few tokens at every step, and how many there are."""


@dataclass(frozen=True)
class JordanModel:
    hidden_size: int = setting(32, "hidden units", most=MOST)
    dropout: float = setting(0.0, "of hidden units", low=0, below=1)


@dataclass(frozen=True)
class JordanSettings(Settings):
    data: MemoryData = field(default_factory=MemoryData)
    model: JordanModel = field(default_factory=JordanModel)

    def check(self) -> None:
        choose_from("data.task", self.data.task, OUTPUTS)
        if self.training.feeding == "free":
            raise OptionError(
                "training.feeding=free would be a loop over time, which this network is trained without. "
                "Use teacher, or scheduled:0.5."
            )

    def idle(self) -> dict[str, str]:
        loop = "this network has no loop over time in training"
        found = {"engine": loop, "training.over_time": "steps are learned one by one, and each counts alike"}
        return found if self.training.truncation == "none" else found | {"training.truncation": loop}


class JordanTask(Task[Jordan]):
    """The Jordan network on a task whose steps each have an input and an output."""

    unit = "step"
    factorisation = (
        "A product of conditionals of order one: P(y1 … yT | x) = Π P(yt | yt−1, xt). Each output is fed back, "
        "and nothing else goes from step to step."
    )

    @cached_property
    def sequences(self) -> MemoryTask:
        """The task as one of memory: where its sequences come from."""
        settings = MemorySettings(data=self.settings.data, training=self.settings.training, seed=self.settings.seed)
        return MemoryTask(settings, self.ranks)

    @property
    def about_data(self) -> str:
        return self.sequences.about_data

    @property
    def called(self) -> str:
        return f"output-recurrent-{self.settings.model.hidden_size}"

    def about_model(self, model: Jordan) -> str:
        return f"output-recurrent, {count_parameters(model):,} parameters, no loop over time"

    def make_model(self) -> Jordan:
        task, model = self.settings.data.task, self.settings.model
        return Jordan(TOKENS[task], OUTPUTS[task], model.hidden_size, dropout=model.dropout)

    def make_trainer(self, model: Jordan) -> Trainer:
        settings = self.settings.training
        feeding, valid = read_feeding(settings.feeding), self.sequences.make_batches(VALID, training=False)

        def loss(model: Jordan, batch: Batch) -> Tensor:
            device = model.bias.device
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            share = feeding.share(trainer.step, settings.steps)
            before = model.own_outputs(inputs, targets, share) if share else targets
            weights = batch_weights(batch, "mean", device, model.bias.dtype)
            return weighted_nll(model(inputs, before), targets, weights)

        train = self.sequences.make_batches(0, training=True)
        trainer = self.train_on(model, train, lambda model: score_forced(model, valid, self.ranks).mean, whole=loss)
        return trainer

    @torch.no_grad()
    def examples(self, model: Jordan) -> Examples:
        """The last steps of a held-out sequence, free running."""
        inputs, targets, _ = self.sequences.make_batch(1, TEST + self.settings.seed)
        predicted = model.run(inputs.to(model.bias.device))[1].argmax(-1).cpu()
        rows = self.sequences.last_steps(inputs, predicted, targets)
        return Examples(("step", "input", "predicted, free running", "true"), rows, "evaluate RUN")

    def evaluate(self, model: Jordan, *, baselines: bool = True) -> Evaluation:
        """With teacher forcing, and free running; there is no other baseline."""
        batches = self.sequences.make_batches(TEST, training=False)
        forced = score_forced(model, batches)
        free = evaluate_whole(model, batches, lambda batch: model.run(batch.inputs.to(model.bias.device))[1])
        scores = {
            name: {"nats": score.mean, "accuracy": score.accuracy or 0.0}
            for name, score in (("teacher forcing", forced), ("free running", free))
        }
        return Evaluation("test", forced.tokens, scores, self.units)


def score_forced(model: Jordan, batches: Batches, ranks: Ranks = Ranks()) -> Score:
    """The score given the true outputs."""
    device = model.bias.device
    return evaluate_whole(model, batches, lambda batch: model(batch.inputs.to(device), batch.targets.to(device)), ranks)


@recipe(JordanTask)
def output_recurrence() -> JordanSettings:
    """a network whose only way back is from its output: trained over all steps at once, evaluated free running"""
    return JordanSettings(
        data=MemoryData(task="washing-machine", length=64),
        model=JordanModel(hidden_size=32),
        training=Training(
            steps=1000, batch_size=64, truncation="none", learning_rate=1e-2, validate_every=250, save_every=250
        ),
    )
