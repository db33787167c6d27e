"""Output recurrence: trained with the true outputs, all steps at once; judged with those, and with its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recurra.data.batches import Batch, Batches
from recurra.data.machine import NAMES
from recurra.errors import OptionError, choose_from
from recurra.models.jordan import Jordan
from recurra.tasks.memory import SYMBOLS, TEST, VALID, MemoryData, MemorySettings, MemoryTask
from recurra.tasks.task import SHOWN, Evaluation, Examples, Question, Recipe, Settings, Task, unused
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.feeding import read_feeding
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import setting

OUTPUTS = {"washing-machine": len(NAMES), "parity": 2}
"""The tasks that say one of a few symbols at every step, and how many there are."""


@dataclass(frozen=True)
class JordanModel:
    hidden_size: int = setting(32, "hidden units")
    dropout: float = setting(0.0, "of hidden units")


@dataclass(frozen=True)
class JordanSettings(Settings):
    data: MemoryData = field(default_factory=MemoryData)
    model: JordanModel = field(default_factory=JordanModel)  # type: ignore[assignment]

    def check(self) -> None:
        super().check()
        choose_from("data.task", self.data.task, OUTPUTS)
        if self.engine != "auto" or self.training.truncation not in ("none", Training().truncation):
            raise OptionError(
                "this network has no loop over time in training: leave engine and training.truncation out."
            )
        if not 0 <= self.model.dropout < 1:
            raise OptionError(f"model.dropout must lie in [0, 1); got {self.model.dropout}.")
        if self.training.feeding == "free":
            raise OptionError(
                "training.feeding=free would be a loop over time, which this network is trained without. "
                "Use teacher, or scheduled:0.5."
            )

    def unused(self) -> dict[str, str]:
        steps = unused("training", ("over_time",), "steps are learned one by one, and each counts alike")
        return super().unused() | self.data.unused() | steps


class JordanTask(Task[Jordan]):
    """The Jordan network on a task whose steps each have an input and an output."""

    unit = "step"
    keeps_vocabulary = False
    factorisation = (
        "A product of conditionals of order one: P(y1 … yT | x) = Π P(yt | yt−1, xt). Each output is fed back, "
        "and nothing else goes from step to step."
    )

    def __init__(self, recipe: JordanSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self.tasks = MemoryTask(MemorySettings(data=recipe.data, training=recipe.training, seed=recipe.seed), ranks)

    @property
    def vocabulary(self) -> None:
        return None

    @property
    def about_data(self) -> str:
        return self.tasks.about_data

    @property
    def called(self) -> str:
        return f"output-recurrent-{self.settings.model.hidden_size}"

    def about_model(self, model: Jordan) -> str:
        return f"output-recurrent, {sum(each.numel() for each in model.parameters()):,} parameters, no loop over time"

    def make_model(self) -> Jordan:
        task, model = self.settings.data.task, self.settings.model
        return Jordan(SYMBOLS[task], OUTPUTS[task], model.hidden_size, dropout=model.dropout)

    def make_trainer(self, model: Jordan) -> Trainer:
        settings = self.settings.training
        feeding, valid = read_feeding(settings.feeding), self.tasks.make_batches(VALID, training=False)

        def learn(model: Jordan, batch: Batch) -> Tensor:
            device = model.bias.device
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            share = feeding.share(trainer.step, settings.steps)
            before = model.own_outputs(inputs, targets, share) if share else targets
            weights = batch_weights(batch, "mean", device, model.bias.dtype)
            return weighted_nll(model(inputs, before), targets, weights)

        trainer = Trainer(
            model,
            self.tasks.make_batches(0, training=True),
            settings,
            lambda judged: judge_forced(judged, valid, self.ranks).mean,
            whole=learn,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )
        return trainer

    @torch.no_grad()
    def examples(self, model: Jordan) -> Examples:
        """The last steps of a held-out sequence, run free."""
        inputs, targets, _ = self.tasks.make_batch(1, TEST + self.settings.seed)
        said = model.run(inputs.to(model.bias.device))[1].argmax(-1).cpu()
        rows = [
            (
                str(t),
                self.tasks._called(inputs[0, t], read=True),
                *(self.tasks._called(v[0, t]) for v in (said, targets)),
            )
            for t in range(max(0, inputs.shape[1] - 3 * SHOWN), inputs.shape[1])
        ]
        return Examples(("step", "read", "said, run free", "true"), rows, "evaluate RUN")

    def evaluate(self, model: Jordan, question: Question) -> Evaluation:
        if question.data is not None or question.window is not None or question.dynamic is not None:
            raise OptionError("this task is made up: --data, --window and --dynamic are for language models.")
        batches = self.tasks.make_batches(TEST, training=False)
        forced = judge_forced(model, batches)
        free = evaluate_whole(model, batches, lambda batch: model.run(batch.inputs.to(model.bias.device))[1])
        scores = {
            name: {"nats": score.mean, "accuracy": score.accuracy or 0.0}
            for name, score in (("given the true outputs", forced), ("run free", free))
        }
        return Evaluation("test", forced.tokens, scores)


def judge_forced(model: Jordan, batches: Batches, ranks: Ranks = Ranks()) -> Score:
    """The score of what is said given the true outputs."""
    device = model.bias.device
    return evaluate_whole(model, batches, lambda batch: model(batch.inputs.to(device), batch.targets.to(device)), ranks)


RECIPES: dict[str, Recipe] = {
    "output-recurrence": Recipe(
        JordanSettings(
            name="output-recurrence",
            data=MemoryData(task="washing-machine", length=64),
            model=JordanModel(hidden_size=32),
            training=Training(
                steps=1000, batch_size=64, truncation="none", learning_rate=1e-2, validate_every=250, save_every=250
            ),
        ),
        "a network whose only way back is from its output: trained over all steps at once, judged running free",
    ),
}
