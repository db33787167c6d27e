"""Formal languages: is a string in the language, predicted after every prefix; short strings to train on, long ones to test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.data.formal import FormalLanguage, dyck, tomita
from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import DataError
from recurra.models.language import LanguageModel
from recurra.tasks.capabilities import Probe
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Evaluation, Examples
from recurra.tasks.streaming import Streaming, most_probable, tokens
from recurra.tasks.task import Settings, StepModelSettings, StepTask
from recurra.training.evaluation import evaluate, evaluating
from recurra.training.loop import Trainer, Training
from recurra.types import MOST, setting

TEST, VALID, EXTRACT = 2**32, 2**32 + 1, 2**33
"""Seeds of held-out strings are these plus the settings' own: none that training draws."""


def _of(family: str) -> Any:
    return lambda s: None if s.data.family == family else f"it is of {family}, and data.family={s.data.family}"


@dataclass(frozen=True)
class FormalData:
    family: str = setting("tomita", "tomita or dyck", choices=("tomita", "dyck"))
    language: int = setting(1, "which of Tomita's seven", idle=_of("tomita"))
    kinds: int = setting(2, "of Dyck's brackets", idle=_of("dyck"))
    depth: int = setting(3, "how many of them may be open at a time", idle=_of("dyck"))
    strings: int = setting(20_000, "how many strings to train on, half of them in the language", low=1, most=MOST)
    length: int = setting(20, "the longest of them", low=1, most=MOST)
    test_length: int = setting(100, "the length of every string of the test", low=1, most=MOST)
    test_strings: int = setting(1000, "how many there are", low=1, most=MOST)

    def check(self) -> None:
        self.make()

    def make(self) -> FormalLanguage:
        return tomita(self.language) if self.family == "tomita" else dyck(self.kinds, self.depth)


@dataclass(frozen=True)
class FormalSettings(Settings):
    data: FormalData = field(default_factory=FormalData)
    model: StepModelSettings = field(default_factory=StepModelSettings)

    def idle(self) -> dict[str, str]:
        return {"training.feeding": "a class is no token to read, so each step is taught"}


class FormalTask(StepTask[LanguageModel]):
    """A class for every prefix of a string."""

    unit = "prefix"
    factorisation = "Classes are independent given the string: P(y0 … yT | x) = Π P(yt | x1 … xt)."
    evaluated_together = 500

    @cached_property
    def language(self) -> FormalLanguage:
        made: FormalLanguage = self.settings.data.make()
        return made

    @property
    def about_data(self) -> str:
        return (
            f"{self.language.name}, {self.settings.data.strings:,} strings of up to {self.settings.data.length} tokens"
        )

    def make_batches(self, seed: int, count: int, *, training: bool) -> LabelledSequences:
        """Strings with the class of every prefix, the empty one too."""
        strings, classes, lengths = self.language.draw(count, self.settings.data.length, seed + self.settings.seed)
        true = torch.arange(strings.shape[1]) < lengths[:, None]
        how = self.batch_options(training=training)
        return LabelledSequences(strings[true], lengths, classes[true], per_step=True, **how)

    def make_model(self) -> LanguageModel:
        size = max(self.language.start + 1, len(self.language.classes))
        return LanguageModel(size, self.make_recurrent(), tied=self.settings.model.tied, **self.step_options())

    def make_trainer(self, model: LanguageModel) -> Trainer:
        valid = self.make_batches(VALID, 2000, training=False)
        train = self.make_batches(0, self.settings.data.strings, training=True)
        return self.train_on(model, train, lambda model: evaluate(model, valid, ranks=self.ranks).mean)

    def _predict(self, model: LanguageModel, strings: Tensor) -> Tensor:
        with evaluating(model):
            logits: Tensor = model(strings.to(model.output.weight.device))[0].cpu()
        return logits

    def evaluate(self, model: LanguageModel, *, baselines: bool = True) -> Evaluation:
        data = self.settings.data
        strings, classes, _ = self.language.draw(
            data.test_strings, data.test_length, TEST + self.settings.seed, exactly=True
        )
        logits = self._predict(model, strings)
        right = logits.argmax(-1) == classes
        nats = torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), classes.flatten())
        scores = {self.called: _row(right) | {"nats": float(nats)}}
        if baselines:
            most = int(self.make_batches(0, 1000, training=False).targets.mode().values)
            scores[f"always {self.language.classes[most]}"] = _row(classes == most)
        return Evaluation(f"strings of length {data.test_length}", right.numel(), scores, self.units)

    def examples(self, model: LanguageModel) -> Examples:
        language = self.language
        strings, classes, _ = language.draw(SHOWN, self.settings.data.length, TEST + self.settings.seed, exactly=True)
        predicted = self._predict(model, strings)[..., : len(language.classes)].argmax(-1)
        rows = [
            ("".join(language.symbols[k] for k in string[1:].tolist()), *(language.classes[int(c[-1])] for c in both))
            for string, *both in zip(strings, predicted, classes, strict=True)
        ]
        return Examples(("string", "predicted", "true"), rows, "evaluate RUN")

    def probe(self, model: LanguageModel, steps: int) -> Probe:
        strings, _, _ = self.language.draw(8, max(steps - 1, 1), 0, exactly=True)
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(strings.to(model.output.weight.device)))

    def streaming(self, model: LanguageModel) -> Streaming:
        """Tokens of a string in; the class of what was read so far out."""
        known, classes = self.language.symbols, self.language.classes
        reads = f"a string of {' '.join(known)}, or a list of tokens from 0 to {len(known) - 1}"

        def encode(text: str) -> Tensor:
            other = next((character for character in text if character not in known), None)
            if other is not None:
                raise DataError(f"{other!r} is no token of {self.language.name}: inputs must be {reads}.")
            return torch.tensor([known.index(character) for character in text], dtype=torch.int64)

        return Streaming(
            model,
            reads,
            lambda given: tokens(given, len(known), encode, reads),
            lambda logits, top: most_probable(logits[:, : len(classes)], classes, top, "classes"),
            torch.tensor([self.language.start]),
        )

    def input_names(self) -> list[str]:
        return list(self.language.symbols)

    def output_names(self) -> list[str]:
        return list(self.language.classes)

    def reading(self, model: LanguageModel) -> Reading:
        """Strings of the length that is trained on, scored on those of the test."""
        language, data = self.language, self.settings.data

        def draw(length: int) -> Any:
            return lambda count, seed: language.draw(count, length, EXTRACT + seed, exactly=True)[0][:, 1:]

        return Reading(
            model.recurrent,
            model.embed(torch.arange(language.start + 1)[None])[0],
            model.output,
            language.symbols,
            language.classes,
            draw(data.length),
            draw_test=draw(data.test_length),
            opening=[language.start],
            truth=Moore(language.symbols, language.after, tuple(language.classes[k] for k in language.outputs)),
        )


def _row(right: Tensor) -> dict[str, float]:
    """Of all prefixes, of whole strings alone, and of strings with every prefix, the share that is right."""
    return {
        "prefixes": float(right.double().mean()),
        "strings": float(right[:, -1].double().mean()),
        "all prefixes": float(right.all(1).double().mean()),
    }


def _training(steps: int) -> Training:
    return Training(
        steps=steps,
        batch_size=64,
        truncation="none",
        learning_rate=1e-2,
        clip_norm=0.1,
        validate_every=500,
        save_every=500,
    )


@recipe(FormalTask, "tomita")
def tomita_recipe() -> FormalSettings:
    """Tomita's languages from short strings, tested on long ones; data.language=1 to 7, seconds"""
    model = StepModelSettings(cell="elman", hidden_size=32, embedding_size=4, weight_dropout=0.1)
    return FormalSettings(data=FormalData(family="tomita"), model=model, training=_training(1500))


@recipe(FormalTask, "dyck")
def dyck_recipe() -> FormalSettings:
    """brackets that close in order: data.kinds of () [] {} <>, no more than data.depth open at a time"""
    model = StepModelSettings(cell="gru", hidden_size=64, embedding_size=8, weight_dropout=0.1)
    return FormalSettings(data=FormalData(family="dyck"), model=model, training=_training(2000))
