"""Formal languages: is a string in the language, said after every prefix; learned from short strings, tested on long ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.data.formal import BRACKETS, FormalLanguage, dyck, tomita
from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import OptionError, choose_from
from recurra.models.language import LanguageModel
from recurra.tasks.task import (
    SHOWN,
    Evaluation,
    Examples,
    Probe,
    Question,
    Recipe,
    Settings,
    StepModel,
    Task,
    unused,
)
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluate, judging
from recurra.training.loop import Trainer, Training
from recurra.types import Float, setting

TEST, VALID, EXTRACT = 2**32, 2**32 + 1, 2**33
"""Seeds of held-out strings are these plus the recipe's own: none that training draws."""


@dataclass(frozen=True)
class FormalData:
    family: str = setting("tomita", "tomita or dyck")
    language: int = setting(1, "which of Tomita's seven")
    kinds: int = setting(2, "of Dyck's brackets")
    depth: int = setting(3, "how many of them may be open at a time")
    strings: int = setting(20_000, "how many strings to train on, half of them in the language")
    length: int = setting(20, "the longest of them")
    test_length: int = setting(100, "the length of every string of the test")
    test_strings: int = setting(1000, "how many there are")

    def check(self) -> None:
        choose_from("data.family", self.family, ("tomita", "dyck"))
        for name in ("strings", "length", "test_length", "test_strings"):
            if getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")
        self.make()

    def make(self) -> FormalLanguage:
        return tomita(self.language) if self.family == "tomita" else dyck(self.kinds, self.depth)


@dataclass(frozen=True)
class FormalSettings(Settings):
    data: FormalData = field(default_factory=FormalData)
    model: StepModel = field(default_factory=StepModel)

    def check(self) -> None:
        super().check()
        if self.training.feeding != "teacher":
            raise OptionError(f"training.feeding={self.training.feeding}: a class is no symbol to read. Use teacher.")

    def unused(self) -> dict[str, str]:
        others = {"tomita": ("kinds", "depth"), "dyck": ("language",)}[self.data.family]
        return super().unused() | unused(
            "data", others, f"it is of the other family, and data.family={self.data.family}"
        )


class FormalTask(Task[LanguageModel]):
    """A class for every prefix of a string."""

    unit = "prefix"
    keeps_vocabulary = False
    factorisation = "Classes are independent given the string: P(y0 … yT | x) = Π P(yt | x1 … xt)."

    def __init__(self, recipe: FormalSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)

    @cached_property
    def language(self) -> FormalLanguage:
        made: FormalLanguage = self.settings.data.make()
        return made

    @property
    def vocabulary(self) -> None:
        return None

    @property
    def about_data(self) -> str:
        return (
            f"{self.language.name}, {self.settings.data.strings:,} strings of up to {self.settings.data.length} symbols"
        )

    def make_batches(self, seed: int, count: int, *, training: bool) -> LabelledSequences:
        """Strings with the class of every prefix, the empty one too."""
        strings, classes, lengths = self.language.draw(count, self.settings.data.length, seed + self.settings.seed)
        true = torch.arange(strings.shape[1]) < lengths[:, None]
        return LabelledSequences(
            strings[true],
            lengths,
            classes[true],
            self.settings.training.batch_size if training else 500,
            per_step=True,
            seed=self.settings.seed,
            shuffle=training,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )

    def make_model(self) -> LanguageModel:
        model = self.settings.model
        return LanguageModel(
            max(self.language.start + 1, len(self.language.classes)),
            model.cell,
            model.hidden_size,
            embedding_size=model.embedding_size,
            tied=model.tied,
            **self.model_options(),
        )

    def make_trainer(self, model: LanguageModel) -> Trainer:
        valid = self.make_batches(VALID, 2000, training=False)
        return Trainer(
            model,
            self.make_batches(0, self.settings.data.strings, training=True),
            self.settings.training,
            lambda judged: evaluate(judged, valid, ranks=self.ranks).mean,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def evaluate(self, model: LanguageModel, question: Question) -> Evaluation:
        if question.data is not None or question.window is not None or question.dynamic is not None:
            raise OptionError("a formal language is made up: --data, --window and --dynamic are for language models.")
        data = self.settings.data
        strings, classes, _ = self.language.draw(
            data.test_strings, data.test_length, TEST + self.settings.seed, exactly=True
        )
        device = model.output.weight.device
        with judging(model):
            logits = model(strings.to(device))[0].cpu()
        right = logits.argmax(-1) == classes
        nats = torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), classes.flatten())
        scores = {self.called: _row(right) | {"nats": float(nats)}}
        if question.baselines:
            most = int(self.make_batches(0, 1000, training=False).targets.mode().values)
            scores[f"always {self.language.classes[most]}"] = _row(classes == most)
        return Evaluation(f"strings of length {data.test_length}", right.numel(), scores)

    def examples(self, model: LanguageModel) -> Examples:
        language = self.language
        strings, classes, _ = language.draw(SHOWN, self.settings.data.length, TEST + self.settings.seed, exactly=True)
        with judging(model):
            logits = model(strings.to(model.output.weight.device))[0].cpu()
        said = logits[..., : len(language.classes)].argmax(-1)
        rows = [
            ("".join(language.symbols[k] for k in string[1:].tolist()), *(language.classes[int(c[-1])] for c in both))
            for string, *both in zip(strings, said, classes, strict=True)
        ]
        return Examples(("string", "said", "true"), rows, "evaluate RUN")

    def probe(self, model: LanguageModel, steps: int) -> Probe:
        strings, _, _ = self.language.draw(8, max(steps - 1, 1), 0, exactly=True)
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(strings.to(model.output.weight.device)))

    def frozen_input(self, model: LanguageModel, name: str) -> Tensor:
        """`zero`, or a symbol of the language that is held."""
        if name == "zero":
            return super().frozen_input(model, name)
        symbol = self.language.symbols.index(choose_from("input", name, self.language.symbols))
        with torch.no_grad():
            return model.embed(torch.tensor([[symbol]]))[0, 0]

    def reading(self, model: LanguageModel) -> Reading:
        """Strings of the length that is trained on, scored on those of the test."""
        language, data = self.language, self.settings.data
        truth = Moore(language.symbols, language.after, tuple(language.classes[k] for k in language.outputs))
        return Reading(
            model.recurrent,
            model.embed(torch.arange(language.start + 1)[None])[0],
            model.output,
            language.symbols,
            language.classes,
            lambda count, seed: language.draw(count, data.length, EXTRACT + seed, exactly=True)[0][:, 1:],
            draw_test=lambda count, seed: language.draw(count, data.test_length, EXTRACT + seed, exactly=True)[0][
                :, 1:
            ],
            opening=[language.start],
            truth=truth,
        )

    @torch.no_grad()
    def says(self, model: LanguageModel, hidden: Float[Tensor, "N H"]) -> list[str]:
        said = model.output(hidden.to(model.output.weight.dtype))[:, : len(self.language.classes)]
        return [self.language.classes[k] for k in said.argmax(-1).tolist()]


def _row(right: Tensor) -> dict[str, float]:
    """Of all prefixes, of whole strings alone, and of strings with every prefix, the share that is right."""
    return {
        "prefixes": float(right.double().mean()),
        "strings": float(right[:, -1].double().mean()),
        "all prefixes": float(right.all(1).double().mean()),
    }


RECIPES: dict[str, Recipe] = {
    "tomita": Recipe(
        FormalSettings(
            name="tomita",
            data=FormalData(family="tomita"),
            model=StepModel(cell="elman", hidden_size=32, embedding_size=4, weight_dropout=0.1),
            training=Training(
                steps=1500,
                batch_size=64,
                truncation="none",
                learning_rate=1e-2,
                clip_norm=0.1,
                validate_every=500,
                save_every=500,
            ),
        ),
        "Tomita's languages from short strings, tested on long ones; data.language=1 to 7, seconds",
    ),
    "dyck": Recipe(
        FormalSettings(
            name="dyck",
            data=FormalData(family="dyck"),
            model=StepModel(cell="gru", hidden_size=64, embedding_size=8, weight_dropout=0.1),
            training=Training(
                steps=2000,
                batch_size=64,
                truncation="none",
                learning_rate=1e-2,
                clip_norm=0.1,
                validate_every=500,
                save_every=500,
            ),
        ),
        f"brackets that close in order: data.kinds of {' '.join(BRACKETS)}, no more than data.depth open at a time",
    ),
}
