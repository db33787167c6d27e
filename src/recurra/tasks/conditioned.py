"""Class-conditional language models: lines with a class each, from a file of two columns, or from a file for each class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.data.batches import Labelled, LabelledSequences
from recurra.data.guard import reads
from recurra.data.text import read_documents
from recurra.data.tokenizers import Tokenizer, build_tokenizer, tokenizer_from_json
from recurra.data.transfer import send
from recurra.errors import DataError, OptionError, choose_from, quoted
from recurra.models.conditioned import CONDITIONS, ConditionedLanguageModel, log_likelihoods
from recurra.models.language import LanguageModel
from recurra.models.markov import best_markov
from recurra.tasks import word_vectors
from recurra.tasks.capabilities import Probe
from recurra.tasks.corpus import TextData, encode_text
from recurra.tasks.kept import TOKENIZER
from recurra.tasks.language import LanguageSettings, TextTask
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Evaluation, Examples
from recurra.tasks.task import StepModelSettings
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll
from recurra.types import setting

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ConditionedModelSettings(StepModelSettings):
    condition: str = setting(
        "input",
        "how the class is told: input (at each step), state (as initial state) or both",
        choices=CONDITIONS,
        added=True,
    )


@dataclass(frozen=True)
class ConditionedSettings(LanguageSettings):
    whole: ClassVar[str | None] = "lines"
    model: ConditionedModelSettings = field(  # type: ignore[assignment]  # lines of a class always end by a token
        default_factory=ConditionedModelSettings
    )
    data: TextData = field(default_factory=lambda: TextData(sequences=True))

    def check(self) -> None:
        super().check()
        if not self.data.sequences or self.data.limit is not None:
            raise OptionError(
                "this recipe reads all lines of its file: leave data.sequences and data.limit as they are."
            )


@reads
def read_classes(path: str) -> list[tuple[str, str]]:
    """(class, text) of every line: CLASS<tab>TEXT in one file, or lines of text in several, each named for its class."""
    documents = read_documents(path)
    if len(documents) > 1:
        return [
            (document.name.rsplit("/", 1)[-1].split(".")[0], line.strip())
            for document in documents
            for line in document.text.splitlines()
            if line.strip()
        ]
    found = []
    for number, line in enumerate(documents[0].text.splitlines(), 1):
        label, tab, text = line.partition("\t")
        if line.strip() and not (tab and label.strip() and text.strip()):
            raise DataError(
                f"{path}, line {number}: expected CLASS<tab>TEXT, found {quoted(line)}. "
                "Or give a folder with a file for each class."
            )
        if line.strip():
            found.append((label.strip(), text.strip()))
    return found


class ConditionedTask(TextTask[ConditionedLanguageModel]):
    """A conditioned language model on lines with a class each."""

    data_kind = "classes"
    keeps: ClassVar[Any] = {**TOKENIZER, "classes": {str: int}}
    factorisation = "A product of conditionals, given a class: P(y1 … yT | c) = Π P(yt | c, y1 … yt−1)."

    @cached_property
    def parts(self) -> dict[str, list[tuple[str, str]]]:
        """Lines at random into training, validation and test, or those of the files given for validation and test."""
        data = self.settings.data
        if data.path is None:
            raise OptionError("this recipe needs lines with classes: give them with data.path=FILE_OR_FOLDER.")
        lines = read_classes(data.path)
        given = {"valid": data.valid_path, "test": data.test_path}
        own = {name: read_classes(path) for name, path in given.items() if path is not None}
        order = np.random.default_rng(self.settings.seed % 2**64).permutation(len(lines))
        valid = 0 if "valid" in own else max(1, round(data.valid * len(lines)))
        test = 0 if "test" in own else round(data.test * len(lines))
        cuts = {"valid": order[:valid], "test": order[valid : valid + test], "train": order[valid + test :]}
        return {name: own.get(name) or [lines[k] for k in cuts[name]] for name in PARTS}

    @cached_property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        if self.kept is not None:
            return tokenizer_from_json(self.kept)
        data, texts = self.settings.data, [text for _, text in self.parts["train"]]
        return build_tokenizer(data.tokens, texts, min_count=data.min_count, max_size=data.max_symbols, sequences=True)

    @cached_property
    def classes(self) -> dict[str, int]:
        """Each class and how many training lines it has."""
        if self.kept is not None:
            return dict(self.kept["classes"])
        counted = Counter(label for label, _ in self.parts["train"])
        if len(counted) < 2:
            raise DataError(
                f"there is one class only, {quoted(next(iter(counted), '(none)'))}; a condition needs at least two."
            )
        return {name: counted[name] for name in sorted(counted)}

    def make_vocabulary(self) -> dict[str, Any]:
        return {**self.tokenizer.to_json(), "classes": self.classes}

    @property
    def about_data(self) -> str:
        return f"{sum(self.classes.values()):,} lines of {len(self.classes)} classes, vocabulary {self.tokenizer.size}"

    def encoded(self, part: str) -> tuple[list[Tensor], Tensor]:
        """The texts of a part as tokens, and their classes."""
        names, lines = list(self.classes), self.parts[part]
        unknown = sorted({label for label, _ in lines} - set(names))
        if unknown:
            raise DataError(
                f"the {part} part has the class {quoted(unknown[0])}, which no training line has. Give it more lines."
            )
        return [encode_text(self.tokenizer, text) for _, text in lines], torch.tensor(
            [names.index(c) for c, _ in lines]
        )

    def make_batches(self, part: str, *, training: bool) -> LabelledSequences:
        return LabelledSequences(*self.encoded(part), **self.batch_options(training=training))

    def word_tables(self) -> word_vectors.Tables:
        return word_vectors.words_of(self.tokenizer, "language.embedding")

    def make_model(self) -> ConditionedLanguageModel:
        language = LanguageModel(
            self.tokenizer.size, self.make_recurrent(), tied=self.settings.model.tied, **self.step_options()
        )
        return ConditionedLanguageModel(language, classes=len(self.classes), told=self.settings.model.condition)

    def make_trainer(self, model: ConditionedLanguageModel) -> Trainer:
        def loss(model: ConditionedLanguageModel, batch: Any) -> Tensor:
            logits = _run(model, batch)
            weights = batch_weights(batch, "mean", logits.device, model.output.weight.dtype)
            return weighted_nll(logits, batch.targets.to(logits.device), weights)

        valid = self.make_batches("valid", training=False)
        train = self.make_batches("train", training=True)
        return self.train_on(model, train, lambda model: self._score(model, valid).mean, whole=loss)

    def _score(self, model: ConditionedLanguageModel, batches: LabelledSequences) -> Score:
        return evaluate_whole(model, batches, lambda batch: _run(model, batch), self.ranks)

    def evaluate(
        self, model: ConditionedLanguageModel, data: str | None = None, *, baselines: bool = True
    ) -> Evaluation:
        """Nats and perplexity given the class, and how often Bayes' rule recognises the class of a line."""
        if data is not None:
            self.parts[data] = read_classes(data)
        name = data or ("test" if self.parts["test"] else "valid")
        batches = self.make_batches(name, training=False)
        prior = torch.tensor(list(self.classes.values()), dtype=torch.float64)
        prior = (prior / prior.sum()).log()
        hits = lines = 0
        for batch in batches.one_pass():
            assert isinstance(batch, Labelled)
            assert batch.lengths is not None
            logs = log_likelihoods(model, batch.inputs, batch.targets, batch.lengths, len(self.classes))
            hits += int(((logs.double() + prior).argmax(1) == batch.labels).sum())
            lines += len(batch.labels)
        made = self._score(model, batches)
        scores = {self.called: {"nats": made.nats, "perplexity": made.perplexity, "class recognised": hits / lines}}
        if baselines:
            (train, _), (valid, _), (test, labels) = (self.encoded(part) for part in ("train", "valid", name))
            markov = best_markov(train, valid, self.tokenizer.size)
            nats = markov.score(test)
            scores[f"markov order {markov.order}, not conditioned"] = {
                "nats": nats,
                "perplexity": math.exp(min(nats, 700)),
                "class recognised": float((labels == prior.argmax()).double().mean()),
            }
        return Evaluation(name, made.tokens, scores, self.units)

    def generate(
        self,
        model: ConditionedLanguageModel,
        prime: list[int],
        length: int | None,
        *,
        given: str | None = None,
        **how: Any,
    ) -> Iterator[int]:
        """Tokens that follow the prime, of a class."""
        names = list(self.classes)
        if given is None:
            raise OptionError(f"this model is class-conditional: give a class with --given, e.g. --given {names[0]!r}.")
        if length is None:
            raise OptionError("lengths are not kept for each class. Give a length instead.")
        told = model.given(torch.tensor([names.index(choose_from("class", given, names))]))
        return self.draw(told, prime, length, **how)

    def _sample(self, model: ConditionedLanguageModel, name: str, length: int, seed: int) -> str:
        return self.sample_text(model.given(torch.tensor([list(self.classes).index(name)])), length, seed)

    def examples(self, model: ConditionedLanguageModel) -> Examples:
        """A text of each class."""
        rows = [(name, self._sample(model, name, 100, 1)) for name in list(self.classes)[:SHOWN]]
        command = f"sample RUN --given {rows[0][0]!r} --temperature 0.8 --seed 1 --length 100"
        return Examples(("class", "what it writes"), rows, command)

    def glimpse(self, model: ConditionedLanguageModel) -> str:
        some = list(self.classes)[:4]
        return "   ".join(f"{name}: {self._sample(model, name, 40, self.settings.seed)}" for name in some)

    def probe(self, model: ConditionedLanguageModel, steps: int) -> Probe:
        """Texts of the first class that the model draws itself."""
        return super().probe(model.given(torch.tensor([0])), steps)

    def frozen_input(self, model: ConditionedLanguageModel, name: str) -> Tensor:
        return super().frozen_input(model.given(torch.tensor([0])), name)


def _run(model: ConditionedLanguageModel, batch: Labelled) -> Tensor:
    device = model.output.weight.device
    assert batch.lengths is not None
    logits: Tensor = model(send(batch.inputs, device), send(batch.labels, device), batch.lengths)
    return logits


@recipe(ConditionedTask)
def conditioned() -> ConditionedSettings:
    """lines with a class each (CLASS<tab>TEXT, or a folder with a file for each class): text of a class"""
    return ConditionedSettings(
        data=TextData(tokens="char", sequences=True, valid=0.1, test=0.1),
        model=ConditionedModelSettings(cell="gru", hidden_size=192, embedding_size=64, dropout=0.4, input_dropout=0.1),
        training=Training(
            steps=2000,
            batch_size=64,
            truncation="none",
            learning_rate=4e-3,
            average="ema:0.995",
            validate_every=250,
            save_every=250,
        ),
    )
