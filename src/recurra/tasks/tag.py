"""A label for each step of a sequence (`tag`): the settings, and how they become a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.data.encoding import Channels
from recurra.data.labelled import Labelled
from recurra.data.tokenizers import Words
from recurra.errors import OptionError
from recurra.models.decision_tree import Numbers
from recurra.models.tag import Tagger
from recurra.tasks.labelling import LabelledData, LabelModelSettings, LabelSettings, LabelTask
from recurra.tasks.recipe import recipe
from recurra.training.labelling import predict_labels
from recurra.training.loop import Training
from recurra.training.tree_penalty import Steps

MOST_TOKENS = 100
"""How many tokens, the most frequent, a decision tree may ask about."""


@dataclass(frozen=True)
class TagSettings(LabelSettings):
    classifies_steps: ClassVar[bool] = True
    model: LabelModelSettings = field(default_factory=LabelModelSettings)


class TaggingTask(LabelTask):
    unit = "step"
    per_step = True

    @property
    def factorisation(self) -> str:  # type: ignore[override]
        """What a tag depends on: all inputs, or in one direction those up to its step."""
        if self.settings.model.bidirectional or self.settings.model.convolution is not None:
            return "Tags are independent given the whole sequence: P(y1 … yT | x) = Π P(yt | x1 … xT)."
        return "Tags are independent given the inputs so far: P(y1 … yT | x) = Π P(yt | x1 … xt)."

    def make_model(self) -> Tagger:
        return Tagger(**self.label_options())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What a decision tree calls the numbers of a step."""
        assert isinstance(self.encoder, Channels)
        return tuple(f"channel {k}" for k in range(1, len(self.encoder.mean) + 1))

    def steps(self, part: str, most: int | None = None) -> Steps:
        """A tree reads numbers as they stood in the file, or which of the most frequent tokens a step is."""
        data: Labelled = getattr(self.parts, part)
        if most is not None:
            ends = np.cumsum([len(sequence) for sequence in data.sequences])
            data = data.take(list(range(max(1, int((ends <= most).sum())))))
        if not len(data):
            raise OptionError(f"this run has no {part} part: give it a share of the data.")
        values, _ = self.encoder.encode(data, torch.float64)
        batches = self.make_batches(data, f"the {part} part", alone=True)
        features, x = self._readable(data, values)
        return Steps(
            x,
            features,
            tuple(self.names.names),
            batches.targets,
            lambda model: torch.cat(predict_labels(model, batches)),
        )

    def _readable(self, data: Labelled, values: Tensor) -> tuple[tuple[str, ...], Numbers]:
        """The columns that a tree may ask about."""
        encoder = self.encoder
        if isinstance(encoder, Channels):
            raw = np.concatenate(data.sequences).astype(np.float64)
            missing, kept = np.isnan(raw), self.feature_names
            raw = np.where(missing, np.array(encoder.mean), raw)
            marks = list(encoder.indicated)
            return (*kept, *(f"{kept[k]} missing" for k in marks)), np.column_stack([raw, missing[:, marks]])
        counts = torch.bincount(values.long(), minlength=encoder.size)
        often = counts.argsort(descending=True, stable=True)[:MOST_TOKENS].sort().values
        assert isinstance(encoder.tokenizer, Words)  # steps with tags are tokens, never parts of a text
        tokens = encoder.tokenizer.tokens
        return tuple(repr(tokens[k]) for k in often.tolist()), (values[:, None] == often).double().numpy()

    def describe(self, probabilities: Tensor) -> dict[str, Any]:
        best = probabilities.max(-1)
        tags = [self.names.names[k] for k in best.indices.tolist()]
        return {"tags": tags, "probabilities": best.values.tolist()}


@recipe(TaggingTask)
def tag() -> TagSettings:
    """any file of sequences with a label for each step: data.path=FILE"""
    return TagSettings(
        data=LabelledData(min_count=2),
        model=LabelModelSettings(cell="lstm", hidden_size=128, embedding_size=64, dropout=0.5, input_dropout=0.2),
        training=Training(
            steps=2000,
            batch_size=32,
            truncation="none",
            l2=0.01,
            average="ema:0.99",
            validate_every=100,
            save_every=500,
        ),
    )
