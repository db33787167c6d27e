"""Signal and noise: labels of steps that a hidden Markov model decides, beside what the best causal model could say."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch

from recurra.data.encoding import Channels, encoder_from_json
from recurra.data.labelled import How, Labelled
from recurra.data.signal_noise import FEATURES, posterior, signal_and_noise
from recurra.errors import OptionError
from recurra.metrics.roc_auc import auc
from recurra.models.labelling import Labeller
from recurra.tasks.classify import LabelModel, LabelSettings, Parts, TaggingTask
from recurra.tasks.task import Evaluation, Question, Recipe, Settings
from recurra.training.loop import Training
from recurra.types import setting

NAMES = ["0", "1"]


@dataclass(frozen=True)
class SignalData:
    sequences: int = setting(100, "to train on, and as many to validate")
    test: int = setting(500, "sequences to test on")
    length: int = setting(50, "steps of each")

    def check(self) -> None:
        for name in ("sequences", "test", "length"):
            if getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class SignalSettings(LabelSettings):
    says_classes: ClassVar[bool] = True
    data: SignalData = field(default_factory=SignalData)  # type: ignore[assignment]
    model: LabelModel = field(default_factory=LabelModel)

    def check(self) -> None:
        super().check()
        if self.model.bidirectional:
            raise OptionError(
                "model.bidirectional=true reads the future, and the best score is of the past. Leave it out."
            )

    def unused(self) -> dict[str, str]:
        return Settings.unused(self) | {"model.embedding_size": "it is of symbols, and numbers are read"}


class SignalNoiseTask(TaggingTask):
    """A tagger of sequences that are made up. Training, validation and test have seeds of their own."""

    factorisation = "Tags are independent given the inputs up to them: P(y1 … yT | x) = Π P(yt | x1 … xt)."

    @cached_property
    def parts(self) -> Parts:
        data, seed = self.settings.data, 3 * self.settings.seed
        return Parts(
            _made(data.sequences, data.length, seed),
            _made(data.sequences, data.length, seed + 1),
            _made(data.test, data.length, seed + 2),
            NAMES,
        )

    @property
    def about_test(self) -> str:
        return "the test part"

    @cached_property
    def encoder(self) -> Channels:
        if self._vocabulary is None:
            return Channels.fit(self.parts.train)
        found = encoder_from_json(self._vocabulary["inputs"])
        assert isinstance(found, Channels)
        return found

    def how(self, columns: dict[str, str], *, labelled: bool = True, part: str = "test") -> How:
        return How(per_step=True, labelled=labelled, text=columns.get("text"), label=columns.get("label"), part=part)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return FEATURES

    @property
    def about_data(self) -> str:
        data = self.settings.data
        return (
            f"signal and noise: {data.sequences} sequences of {data.length} steps to train on, as many to validate, "
            f"{data.test} to test"
        )

    def evaluate(self, model: Labeller, question: Question) -> Evaluation:
        answer = super().evaluate(model, question)
        if question.data is None and question.baselines:
            answer.scores["best of all (Bayes)"] = self.ceiling("test")
        return answer

    def ceiling(self, part: str) -> dict[str, float]:
        """The scores of exact filtering on a part: what knowing how the data were made is worth to a causal model."""
        data: Labelled = getattr(self.parts, part)
        inputs = torch.stack([torch.from_numpy(x) for x in data.sequences])
        labels = self.names.encode(data, f"the {part} part")
        said = posterior(inputs).flatten()
        chance = torch.where(labels == 1, said, 1 - said)
        return {
            "accuracy": float(((said > 0.5) == labels).double().mean()),
            "nats": float(-chance.log().mean()),
            "AUC": auc(said, labels),
        }


def _made(count: int, length: int, seed: int) -> Labelled:
    inputs, labels, _ = signal_and_noise(count, length, seed)
    return Labelled("numbers", list(inputs.numpy()), [[NAMES[k] for k in row] for row in labels.tolist()])


RECIPES: dict[str, Recipe] = {
    "signal-and-noise": Recipe(
        SignalSettings(
            name="signal-and-noise",
            model=LabelModel(cell="gru", hidden_size=5, bidirectional=False),
            training=Training(
                steps=1200,
                batch_size=32,
                truncation="none",
                learning_rate=3e-3,
                warmup=50,
                validate_every=50,
                save_every=500,
            ),
        ),
        "two hidden Markov models, one of which decides the label: what training.tree=0.05 is for",
    ),
}
