"""A Jordan network on one's own data: tokens with a tag each, trained over all steps at once, run free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recurra.data.batches import Batch
from recurra.data.encoding import Tokens
from recurra.errors import DataError
from recurra.models.jordan import Jordan
from recurra.tasks.jordan import JordanModel, check_feeding
from recurra.tasks.labelling import LabelledData, LabelSettings
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation
from recurra.tasks.tag import TaggingTask
from recurra.tasks.task import count_parameters
from recurra.training.evaluation import evaluating
from recurra.training.feeding import read_feeding
from recurra.training.labelling import evaluate_labels
from recurra.training.loop import Trainer, Training
from recurra.types import Float, Int


class JordanTagger(Jordan):
    """A Jordan network that is called as a tagger is: without the true outputs it reads its own, free running."""

    embedding = None

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Float[Tensor, "B T V"]:
        """`targets`: the true outputs `[B, T]`; lengths `[B]`, as taggers are given, are of no use here."""
        if targets is None or targets.ndim == 1:
            return self.run(inputs)[1]
        return super().forward(inputs, targets)


@dataclass(frozen=True)
class JordanTagSettings(LabelSettings):
    model: JordanModel = field(default_factory=lambda: JordanModel(hidden_size=64))

    def check(self) -> None:
        check_feeding(self.training)

    def idle(self) -> dict[str, str]:
        loop = "this network has no loop over time in training"
        found = super().idle() | {"engine": loop, "training.over_time": "steps are learned one by one, each alike"}
        return found if self.training.truncation == "none" else found | {"training.truncation": loop}


class JordanTaggingTask(TaggingTask):
    """Tags from a network whose only way back is from its output."""

    factorisation = (
        "A product of conditionals of order one: P(y1 … yT | x) = Π P(yt | yt−1, xt). Each output is fed back, "
        "and nothing else goes from step to step."
    )
    reading: Any = None
    probe: Any = None
    steps: Any = None

    @property
    def lacks(self) -> tuple[str, ...]:
        return ()

    @property
    def called(self) -> str:
        return f"output-recurrent-{self.settings.model.hidden_size}"

    def about_model(self, model: Any) -> str:
        return f"{self.called}, {count_parameters(model):,} parameters, no loop over time in training"

    def _check_reading(self, found: Any) -> None:
        if found.kind not in ("text", "tokens"):
            raise DataError(
                f"{self.settings.data.path} holds {found.kind}; this network reads tokens. Use the recipe tag."
            )

    def word_tables(self) -> dict[str, list[str]]:
        return {}  # its vectors are what it adds to its state

    def make_model(self) -> Any:
        assert isinstance(self.encoder, Tokens)
        model = self.settings.model
        return JordanTagger(self.encoder.size, len(self.names), model.hidden_size, dropout=model.dropout)

    def make_trainer(self, model: Any) -> Trainer:
        settings = self.settings.training
        feeding = read_feeding(settings.feeding)
        valid = self.make_batches(self.parts.valid or self.parts.train, "the validation part")

        def loss(model: JordanTagger, batch: Batch) -> Tensor:
            share = feeding.share(trainer.step, settings.steps)
            logits, targets = forced(model, batch, share)
            return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

        train = self.make_batches(self.parts.train, "the training part", training=True)
        trainer = self.train_on(model, train, lambda model: evaluate_labels(model, valid, self.ranks).nats, whole=loss)
        return trainer

    def evaluate(self, model: Any, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Free running, as it is used; the table also says how it does with teacher forcing."""
        found = super().evaluate(model, data, baselines=baselines)
        part, name = self.held_out if data is None else (self._read(data), data)
        hits = steps = 0
        nats = 0.0
        with evaluating(model):
            for batch in self.make_batches(part, name).one_pass():
                logits, targets = forced(model, batch, 0.0)
                hits += int((logits.argmax(-1) == targets).sum())
                nats += float(torch.nn.functional.cross_entropy(logits.double(), targets, reduction="sum"))
                steps += len(targets)
        row = {"accuracy": hits / max(1, steps), "nats": nats / max(1, steps)}
        found.scores[f"{self.called}, teacher forcing"] = row
        return found


def forced(model: JordanTagger, batch: Batch, share: float) -> tuple[Float[Tensor, "M V"], Int[Tensor, " M"]]:
    """Logits and targets of all true steps, each given the target before it; a share of those drawn by the network itself."""
    here = batch.to(model.bias.device)
    inputs, targets = here.inputs, here.targets
    logits = model(inputs, model.own_outputs(inputs, targets, share) if share else targets)
    assert batch.lengths is not None
    inside = (torch.arange(inputs.shape[1]) < batch.lengths[:, None]).to(inputs.device)
    return logits[inside], targets[inside]


@recipe(JordanTaggingTask)
def jordan() -> JordanTagSettings:
    """any file of tokens with a label each (data.path=FILE), tagged by a network whose only way back is from its output"""
    return JordanTagSettings(
        data=LabelledData(min_count=2),
        training=Training(
            steps=1500, batch_size=32, truncation="none", learning_rate=1e-2, validate_every=250, save_every=500
        ),
    )
