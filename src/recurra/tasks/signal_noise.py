"""Signal and noise: labels of steps that a hidden Markov model decides, beside what the best causal model could predict."""

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
from recurra.tasks.labelling import LabelModelSettings, LabelSettings, Parts
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation
from recurra.tasks.tag import TaggingTask
from recurra.training.loop import Training
from recurra.types import MOST, setting

NAMES = ["0", "1"]


@dataclass(frozen=True)
class SignalData:
    sequences: int = setting(100, "to train on, and as many to validate", low=1, most=MOST)
    test: int = setting(500, "sequences to test on", low=1, most=MOST)
    length: int = setting(50, "steps of each", low=1, most=MOST)


@dataclass(frozen=True)
class SignalSettings(LabelSettings):
    classifies_steps: ClassVar[bool] = True
    data: SignalData = field(default_factory=SignalData)  # type: ignore[assignment]
    model: LabelModelSettings = field(default_factory=LabelModelSettings)

    def check(self) -> None:
        if self.model.bidirectional:
            raise OptionError(
                "model.bidirectional=true reads the future, and the best score is of the past. Leave it out."
            )

    def idle(self) -> dict[str, str]:
        return {"model.embedding_size": "it is of tokens, and numbers are read"}


class SignalNoiseTask(TaggingTask):
    """A tagger of synthetic sequences. Training, validation and test have seeds of their own."""

    data_kind: ClassVar[str | None] = None
    factorisation = "Tags are independent given the inputs up to them: P(y1 … yT | x) = Π P(yt | x1 … xt)."

    @cached_property
    def parts(self) -> Parts:
        data, seed = self.settings.data, 3 * self.settings.seed
        sizes = (data.sequences, data.sequences, data.test)
        train, valid, test = (_draw(size, data.length, seed + k) for k, size in enumerate(sizes))
        return Parts(train, valid, test, NAMES)

    @property
    def about_test(self) -> str:
        return "the test part"

    @cached_property
    def encoder(self) -> Channels:
        if self.kept is None:
            return Channels.fit(self.parts.train)
        found = encoder_from_json(self.kept["inputs"])
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

    def evaluate(self, model: Labeller, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        found = super().evaluate(model, data, baselines=baselines)
        if data is None and baselines:
            found.scores["best of all (Bayes)"] = self.ceiling("test")
        return found

    def ceiling(self, part: str) -> dict[str, float]:
        """The scores of exact filtering on a part: what knowing how the data were made is worth to a causal model."""
        data: Labelled = getattr(self.parts, part)
        inputs = torch.stack([torch.from_numpy(x) for x in data.sequences])
        labels = self.names.encode(data, f"the {part} part")
        chances = posterior(inputs).flatten()
        true = torch.where(labels == 1, chances, 1 - chances)
        return {
            "accuracy": float(((chances > 0.5) == labels).double().mean()),
            "nats": float(-true.log().mean()),
            "AUC": auc(chances, labels),
        }


def _draw(count: int, length: int, seed: int) -> Labelled:
    inputs, labels, _ = signal_and_noise(count, length, seed)
    return Labelled("numbers", list(inputs.numpy()), [[NAMES[k] for k in row] for row in labels.tolist()])


@recipe(SignalNoiseTask, "signal-and-noise")
def signal_and_noise_recipe() -> SignalSettings:
    """two hidden Markov models, one of which decides the label: what training.tree=0.05 is for"""
    return SignalSettings(
        model=LabelModelSettings(cell="gru", hidden_size=5, bidirectional=False),
        training=Training(
            steps=1200,
            batch_size=32,
            truncation="none",
            learning_rate=3e-3,
            warmup=50,
            validate_every=50,
            save_every=500,
        ),
    )
