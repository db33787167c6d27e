"""Language models told a class: which lines belong to it is learned from a file of two columns, or from a file for each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.data.batches import Labelled, LabelledSequences
from recurra.data.text import read_documents
from recurra.data.tokenizers import build_tokenizer, tokenizer_from_json
from recurra.data.transfer import send
from recurra.errors import DataError, OptionError, choose_from
from recurra.models.conditioned import ConditionedLanguageModel, log_likelihoods
from recurra.models.markov import best_markov
from recurra.models.sampling import Choice, sample
from recurra.tasks.language import Data, LanguageSettings, encode_text
from recurra.tasks.task import SHOWN, Evaluation, Examples, Question, Recipe, StepModel, Task, check_whole
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import batch_weights, weighted_nll

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ConditionedSettings(LanguageSettings):
    def check(self) -> None:
        super().check()
        check_whole(self.training, "lines")
        if not self.data.sequences or self.data.limit is not None:
            raise OptionError(
                "this recipe reads all lines of its file: leave data.sequences and data.limit as they are."
            )


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
                f"{path}, line {number}: expected CLASS<tab>TEXT, found {line[:40]!r}. "
                "Or give a folder with a file for each class."
            )
        if line.strip():
            found.append((label.strip(), text.strip()))
    return found


class ConditionedTask(Task[ConditionedLanguageModel]):
    """A conditioned language model on lines with a class each."""

    verbs = ("evaluate", "sample")
    factorisation = "A product of conditionals, given a class: P(y1 … yT | c) = Π P(yt | c, y1 … yt−1)."

    def __init__(self, recipe: ConditionedSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    @cached_property
    def parts(self) -> dict[str, list[tuple[str, str]]]:
        """Lines at random into training, validation and test."""
        data = self.settings.data
        if data.path is None:
            raise OptionError("this recipe needs lines with classes: give them with data.path=FILE_OR_FOLDER.")
        lines = read_classes(data.path)
        order = np.random.default_rng(self.settings.seed).permutation(len(lines))
        valid, test = max(1, round(data.valid * len(lines))), round(data.test * len(lines))
        cuts = {"valid": order[:valid], "test": order[valid : valid + test], "train": order[valid + test :]}
        return {name: [lines[k] for k in cuts[name]] for name in PARTS}

    @cached_property
    def tokenizer(self) -> Any:
        if self._vocabulary is not None:
            return tokenizer_from_json(self._vocabulary)
        data, texts = self.settings.data, [text for _, text in self.parts["train"]]
        return build_tokenizer(data.tokens, texts, min_count=data.min_count, max_size=data.max_symbols, sequences=True)

    @cached_property
    def classes(self) -> dict[str, int]:
        """Each class and how many training lines it has."""
        if self._vocabulary is not None:
            return dict(self._vocabulary["classes"])
        counted = Counter(label for label, _ in self.parts["train"])
        if len(counted) < 2:
            raise DataError(
                f"there is one class only, {next(iter(counted), '(none)')!r}; a condition needs at least two."
            )
        return {name: counted[name] for name in sorted(counted)}

    @property
    def vocabulary(self) -> dict[str, Any]:
        return self._vocabulary or {**self.tokenizer.to_json(), "classes": self.classes}

    @property
    def about_data(self) -> str:
        return f"{sum(self.classes.values()):,} lines of {len(self.classes)} classes, vocabulary {self.tokenizer.size}"

    def encoded(self, part: str) -> tuple[list[Tensor], Tensor]:
        """The texts of a part as symbols, and their classes."""
        names = list(self.classes)
        unknown = sorted({label for label, _ in self.parts[part]} - set(names))
        if unknown:
            raise DataError(
                f"the {part} part has the class {unknown[0]!r}, which no training line has. Give it more lines."
            )
        lines = self.parts[part]
        return [encode_text(self.tokenizer, text) for _, text in lines], torch.tensor(
            [names.index(c) for c, _ in lines]
        )

    def make_batches(self, part: str, *, training: bool) -> LabelledSequences:
        return LabelledSequences(
            *self.encoded(part),
            self.settings.training.batch_size if training else 256,
            seed=self.settings.seed,
            shuffle=training,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )

    def make_model(self) -> ConditionedLanguageModel:
        model = self.settings.model
        return ConditionedLanguageModel(
            self.tokenizer.size,
            model.cell,
            model.hidden_size,
            classes=len(self.classes),
            embedding_size=model.embedding_size,
            tied=model.tied,
            **self.model_options(),
        )

    def make_trainer(self, model: ConditionedLanguageModel) -> Trainer:
        def learn(model: ConditionedLanguageModel, batch: Any) -> Tensor:
            logits = _say(model, batch)
            weights = batch_weights(batch, "mean", logits.device, model.output.weight.dtype)
            return weighted_nll(logits, batch.targets.to(logits.device), weights)

        valid = self.make_batches("valid", training=False)
        return Trainer(
            model,
            self.make_batches("train", training=True),
            self.settings.training,
            lambda judged: self._score(judged, valid).mean,
            whole=learn,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def _score(self, model: ConditionedLanguageModel, batches: LabelledSequences) -> Score:
        return evaluate_whole(model, batches, lambda batch: _say(model, batch), self.ranks)

    def evaluate(self, model: ConditionedLanguageModel, question: Question) -> Evaluation:
        if question.data is not None or question.window is not None or question.dynamic is not None:
            raise OptionError("--data, --window and --dynamic are for plain language models.")
        name = "test" if self.parts["test"] else "valid"
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
        if question.baselines:
            (train, _), (valid, _), (test, labels) = (self.encoded(part) for part in ("train", "valid", name))
            markov = best_markov(train, valid, self.tokenizer.size)
            nats = markov.score(test)
            most = float((labels == prior.argmax()).double().mean())
            scores[f"markov order {markov.order}, not told"] = {
                "nats": nats,
                "perplexity": math.exp(min(nats, 700)),
                "class recognised": most,
            }
        return Evaluation(name, made.tokens, scores)

    def draw_length(self, generator: torch.Generator) -> int:
        raise OptionError("lengths are not kept for each class. Say --length instead.")

    def draw(
        self, model: ConditionedLanguageModel, ids: list[int], length: int, *, given: str | None, **how: Any
    ) -> Iterator[int]:
        """Symbols that follow `ids`, of a class."""
        names = list(self.classes)
        if given is None:
            raise OptionError(f"this model is told a class: give one with --given, e.g. --given {names[0]!r}.")
        told = model.given(torch.tensor([names.index(choose_from("class", given, names))]))
        start, end = self.tokenizer.start, self.tokenizer.end
        return sample(told, [start, *ids], length, end=end, never=[start], **how)

    def examples(self, model: ConditionedLanguageModel) -> Examples:
        """A text of each class."""
        rows = []
        for name in list(self.classes)[:SHOWN]:
            random = torch.Generator().manual_seed(1)
            how: dict[str, Any] = {"choice": Choice(temperature=0.8), "generator": random}
            rows.append((name, self.tokenizer.decode(self.draw(model, [], 100, given=name, **how))))
        command = f"sample RUN --given {rows[0][0]!r} --temperature 0.8 --seed 1 --length 100"
        return Examples(("class", "what it writes"), rows, command)

    def glimpse(self, model: ConditionedLanguageModel) -> str:
        random = torch.Generator().manual_seed(self.settings.seed)
        how: dict[str, Any] = {"choice": Choice(temperature=0.8), "generator": random}
        return "   ".join(
            f"{name}: {self.tokenizer.decode(self.draw(model, [], 40, given=name, **how))}"
            for name in list(self.classes)[:4]
        )


def _say(model: ConditionedLanguageModel, batch: Labelled) -> Tensor:
    device = model.output.weight.device
    assert batch.lengths is not None
    logits: Tensor = model(send(batch.inputs, device), send(batch.labels, device), batch.lengths)
    return logits


RECIPES: dict[str, Recipe] = {
    "conditioned": Recipe(
        ConditionedSettings(
            name="conditioned",
            data=Data(tokens="char", sequences=True, valid=0.1, test=0.1),
            model=StepModel(cell="gru", hidden_size=192, embedding_size=64, dropout=0.4, input_dropout=0.1),
            training=Training(
                steps=2000,
                batch_size=64,
                truncation="none",
                learning_rate=4e-3,
                average="ema:0.995",
                validate_every=250,
                save_every=250,
            ),
        ),
        "lines with a class each (CLASS<tab>TEXT, or a folder with a file for each class): text of a class",
    ),
}
