"""What tasks that label sequences (`classify`) or their steps (`tag`) have in common: settings, data, training, evaluation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.analysis.embeddings import Embeddings, look_at_embeddings
from recurra.data.encoding import Channels, Names, Tokens, encoder_from_json, fit_encoder, flat_labels
from recurra.data.labelled import How, Labelled, read_labelled
from recurra.data.labelled_batches import LabelledSequences
from recurra.errors import DataError, OptionError
from recurra.layers.front import Front
from recurra.metrics.confusion import Confusion
from recurra.metrics.roc_auc import auc
from recurra.models.labelling import Labeller
from recurra.tasks import word_vectors
from recurra.tasks.capabilities import Probe
from recurra.tasks.corpus import TOKENS
from recurra.tasks.kept import SEQUENCES
from recurra.tasks.recipe import RECIPES
from recurra.tasks.results import SHOWN, Evaluation, Examples, Predictions
from recurra.tasks.task import ModelSettings, Settings, StepTask, check_shares, given_test, given_valid, make_penalty
from recurra.training.labelling import evaluate_labels, label_loss, most_frequent, predict_labels
from recurra.training.loop import Trainer
from recurra.types import MOST, Int, setting

PADDING = ("masked", "start", "end")
NOISE = 0.3
"""How much is added to numbers, which have a deviation of 1, unless the settings say it. Vectors of tokens are far smaller."""


def _chosen_by_last(settings: Any) -> str | None:
    if _valid_share(settings.data) > 0 or settings.training.ensemble > 1:
        return None
    return "with data.valid=0 the last model is kept"


def _valid_share(data: Any) -> float:
    return 1.0 if getattr(data, "valid_path", None) is not None else float(getattr(data, "valid", 1.0))


@dataclass(frozen=True)
class LabelledData:
    path: str | None = setting(
        None, "a file of labelled sequences: .csv, .tsv, .jsonl, .ts, IDX, .npz; to tag: a token per line"
    )
    valid_path: str | None = setting(
        None, "a file to validate on, where the split is given; none: a share of data.path", added=True
    )
    test_path: str | None = setting(None, "a file to test on, where the split is given; none: a share of data.path")
    text: str | None = setting(None, "the column with the sequence; none: guessed")
    label: str | None = setting(None, "the column with the label; none: guessed")
    tokens: str = setting("char", "what a token of a text is: byte, char, word or bpe", choices=TOKENS)
    min_count: int = setting(1, "tokens seen less often become <unk>", low=1)
    max_symbols: int | None = setting(None, "the size of the vocabulary: keep the most frequent tokens", low=1)
    embeddings: str | None = word_vectors.from_file()
    freeze_embeddings: bool = word_vectors.frozen()
    pixels: bool = setting(False, "images are read pixel by pixel; otherwise row by row")
    permute: bool = setting(False, "permuted pixels: another order, the same for all images")
    permute_seed: int = setting(
        0,
        "which order that is; the run's own seed does not change it",
        idle=lambda s: None if s.data.permute else "no order is drawn without data.permute",
    )
    valid: float = setting(
        0.1,
        "the share of sequences that chooses the model; 0: the last model is kept",
        idle=given_valid,
    )
    test: float = setting(
        0.1,
        "the share that is kept for the last evaluation, where data.test_path is not given",
        idle=lambda s: given_test(s) or ("every fold is a test part" if s.data.folds else None),
    )
    folds: int = setting(
        0,
        "cross-validation: the sequences are dealt to so many folds, one of which is the test part; 0: none",
        added=True,
    )
    fold: int = setting(
        1,
        "which fold is the test part, counted from 1",
        low=1,
        added=True,
        idle=lambda s: None if s.data.folds else "there are no folds without data.folds",
    )

    def check(self) -> None:
        check_shares(self.valid, self.test, chosen=False)
        if self.folds and not (self.folds > 1 and self.fold <= self.folds):
            raise OptionError(
                f"data.folds={self.folds} and data.fold={self.fold}: there must be 2 folds, and that one."
            )
        if self.folds and self.test_path is not None:
            raise OptionError(f"data.folds={self.folds}: every fold is a test part. Leave data.test_path out.")


@dataclass(frozen=True)
class LabelModelSettings(ModelSettings):
    tied: bool = setting(
        False, "the softmax uses the embedding's matrix", idle=lambda s: "it is for models that predict what they read"
    )
    bidirectional: bool = setting(True, "each layer also reads from the end")
    convolution: int | None = setting(
        None, "first a convolution over this many steps (odd); none: no convolution", low=1, most=MOST
    )
    noise: float | None = setting(
        0.0,
        f"size of the normal noise that is added to inputs in training; none: {NOISE} to numbers, 0 to tokens",
        low=0,
    )
    shift: float = setting(0.0, "the same, but one for all steps of a sequence", low=0)

    def check(self) -> None:
        if self.convolution is not None and self.convolution % 2 == 0:
            raise OptionError(f"model.convolution must be odd, as many steps before as after; got {self.convolution}.")


@dataclass(frozen=True)
class LabelSettings(Settings):
    whole: ClassVar[str | None] = "sequences with labels"
    data: LabelledData = field(default_factory=LabelledData)

    def idle(self) -> dict[str, str]:
        why = _chosen_by_last(self)
        return {"training.validate_every": why, "training.patience": why} if why else {}


@dataclass(frozen=True, eq=False)
class Parts:
    """What the recipe's files hold, in three parts."""

    train: Labelled
    valid: Labelled
    test: Labelled
    known: list[str]  # every label that there is in data.path


def split(data: Labelled, valid: float, test: float, seed: int) -> tuple[Labelled, Labelled, Labelled]:
    """Sequences dealt at random to training, validation and test; of every class about the same share to each."""
    dealt = np.random.default_rng(seed % 2**64).permutation(len(data)).tolist()
    if data.labels is not None and isinstance(data.labels[0], str):
        labels = data.labels
        dealt.sort(key=lambda k: labels[k])
    rest, tested = _every(dealt, test)
    learned, chosen = _every(rest, valid / (1 - test))
    train, validation, testing = (data.take(sorted(part)) for part in (learned, chosen, tested))
    return train, validation, testing


def deal_folds(labels: Sequence[Any], count: int, seed: int) -> list[int]:
    """A fold from 0 to count - 1 for each sequence, at random; of every class about as many to each fold."""
    order = np.random.default_rng(seed % 2**64).permutation(len(labels)).tolist()
    if isinstance(labels[0], str):
        order.sort(key=lambda k: labels[k])
    places = {k: place for place, k in enumerate(order)}
    return [places[k] % count for k in range(len(labels))]


def _every(items: list[int], share: float) -> tuple[list[int], list[int]]:
    """Those that are left, and a share of them taken at even distances."""
    counts = np.floor(np.arange(len(items) + 1) * share + 0.5).astype(int)
    taken = np.diff(counts) > 0
    return [k for k, is_in in zip(items, taken, strict=True) if not is_in], [
        k for k, is_in in zip(items, taken, strict=True) if is_in
    ]


class LabelTask(StepTask[Labeller]):
    """A model that predicts labels. With the vocabulary of a run folder, data is needed only for training and evaluation."""

    data_kind: ClassVar[str | None] = "labelled"
    keeps: ClassVar[Any] = {"inputs": SEQUENCES, "labels": {str: int}, "columns": {str: str}}
    per_step = False

    @classmethod
    def data_options(cls, settings: Any) -> dict[str, bool]:
        return {"per_step": cls.per_step}

    def how(self, columns: dict[str, str], *, labelled: bool = True, part: str = "test") -> How:
        """How a file is read: its columns by the names that the training file had."""
        data = self.settings.data
        return How(
            per_step=self.per_step,
            labelled=labelled,
            text=columns.get("text", data.text),
            label=columns.get("label", data.label),
            pixels=data.pixels,
            permute=data.permute,
            seed=data.permute_seed,
            part=part,
        )

    @cached_property
    def parts(self) -> Parts:
        data = self.settings.data
        if data.path is None:
            raise OptionError(f"the recipe {self.settings.name} needs a file of labelled sequences: data.path=FILE.")
        known = {} if self.kept is None else self.kept["columns"]
        found = read_labelled(data.path, self.how(known, part="train"))
        self._check_reading(found)
        given = {name: getattr(data, f"{name}_path") for name in ("valid", "test")}
        shares = {name: 0.0 if given[name] is not None else getattr(data, name) for name in given}
        learned, tested = found, None
        if data.folds:
            dealt = np.array(deal_folds(found.labels or (), data.folds, self.settings.seed))
            learned, tested = (
                found.take(np.flatnonzero(each).tolist()) for each in (dealt != data.fold - 1, dealt == data.fold - 1)
            )
            shares["test"] = 0.0
        parts = dict(zip(("train", "valid", "test"), split(learned, **shares, seed=self.settings.seed), strict=True))
        parts["test"] = parts["test"] if tested is None else tested
        parts |= {
            name: read_labelled(path, self.how(found.columns)) for name, path in given.items() if path is not None
        }
        if not len(parts["train"]) or (shares["valid"] and not len(parts["valid"])):
            raise DataError(
                f"{data.path} has {len(found)} sequences, too few for data.valid={shares['valid']} and "
                f"data.test={shares['test']}. Give more, or smaller shares."
            )
        return Parts(**parts, known=sorted(set(flat_labels(found))))

    def _check_reading(self, found: Labelled) -> None:
        """Refuse settings that this kind of file has no use for, unless they are the recipe's own."""
        settings, path = self.settings, self.settings.data.path
        idle = [] if found.columns else ["data.text", "data.label"]
        idle += [] if found.kind == "text" else ["data.tokens"]
        idle += (
            [] if found.kind in ("text", "tokens") else ["data.min_count", "data.max_symbols", "model.embedding_size"]
        )
        usual = RECIPES[settings.name].settings
        for group, name in (key.split(".") for key in idle):
            value = getattr(getattr(settings, group), name)
            if value != getattr(getattr(usual, group), name):
                raise OptionError(
                    f"{group}.{name}={value} would change nothing here: {path} holds {found.kind}. Leave it out."
                )
        if self.whiten and found.kind in ("numbers", "images") and found.sequences[0].shape[1] == 1:
            raise OptionError(
                f"data.whiten={self.whiten} would change nothing here: it mixes channels, and {path} is read as one. "
                "Leave it out."
            )

    @property
    def whiten(self) -> float:
        """How far channels are whitened; never, if labels are of steps."""
        return float(getattr(self.settings.data, "whiten", 0.0))

    @property
    def about_test(self) -> str:
        return str(self.settings.data.test_path or "the test part")

    @cached_property
    def encoder(self) -> Tokens | Channels:
        if self.kept is not None:
            return encoder_from_json(self.kept["inputs"])
        data = self.settings.data
        return fit_encoder(self.parts.train, data.tokens, data.min_count, data.max_symbols, self.whiten)

    @cached_property
    def names(self) -> Names:
        if self.kept is not None:
            return Names(self.kept["labels"])
        return Names.fit(self.parts.train, self.parts.known)

    def word_tables(self) -> word_vectors.Tables:
        return word_vectors.words_of(self.encoder.tokenizer) if isinstance(self.encoder, Tokens) else {}

    def make_vocabulary(self) -> dict[str, Any]:
        """How inputs are read, the labels with how often training data had each, and the columns that were read."""
        return {"inputs": self.encoder.to_json(), "labels": self.names.counts, "columns": self.parts.train.columns}

    @property
    def about_data(self) -> str:
        parts = self.parts
        called = {"text": {"tokens": "tokens", "numbers": "steps"}.get(parts.train.kind, "text")}
        columns = ", ".join(f"{called.get(what, what)} from {name!r}" for what, name in parts.train.columns.items())
        read = f" ({columns})" if columns else ""
        return (
            f"{self.settings.data.path}{read}: {len(parts.train):,} sequences to train on, {len(parts.valid):,} to validate, "
            f"{len(parts.test):,} to test; {self.encoder.about}, {len(self.names)} classes"
        )

    def make_batches(
        self, part: Labelled, about: str, *, training: bool = False, alone: bool = False
    ) -> LabelledSequences:
        """Batches of a part, this rank's share of each, or with `alone` all of it; `about` is for messages."""
        values, lengths = self.encoder.encode(part, self.settings.precision)
        if part.labels is None:
            targets = torch.zeros(len(values) if self.per_step else len(lengths), dtype=torch.int64)
        else:
            targets = self.names.encode(part, about)
        how = self.batch_options(training=training) | ({"rank": 0, "world": 1} if alone else {})
        return LabelledSequences(values, lengths, targets, per_step=self.per_step, **how)

    def label_options(self, pool: int = 1) -> dict[str, Any]:
        """What classifiers and taggers are made of alike: the recurrent layers, and what stands before them."""
        model, encoder = self.settings.model, self.encoder
        size = (model.embedding_size or model.hidden_size) if encoder.are_tokens else encoder.size
        front = None if model.convolution is None else Front(size, model.hidden_size, model.convolution, pool)
        noise = (0.0 if encoder.are_tokens else NOISE) if model.noise is None else model.noise
        return {
            "recurrent": self.make_recurrent(size if front is None else model.hidden_size),
            "classes": len(self.names),
            "vocabulary_size": encoder.size if encoder.are_tokens else None,
            "front": front,
            "noise": noise,
            "shift": model.shift,
            "input_dropout": model.input_dropout,
        }

    def make_trainer(self, model: Labeller) -> Trainer:
        parts, settings = self.parts, self.settings.training
        if len(parts.test):
            self.names.encode(parts.test, self.about_test)  # refused now rather than after training
        if len(parts.valid):
            valid = self.make_batches(parts.valid, "the validation part")
        else:
            valid = self.make_batches(parts.train, "the training part")
        if not len(parts.valid) and self.folds is None:  # nothing to choose by: the model of the last step is kept
            settings = replace(settings, validate_every=settings.steps, patience=None)
        penalty = make_penalty(self, model)

        def validate(evaluated: Labeller) -> float:
            nats = evaluate_labels(evaluated, valid, self.ranks).nats
            return nats if penalty is None else nats + penalty.of(evaluated)

        train = self.make_batches(parts.train, "the training part", training=True)
        train.folds = self.folds
        return self.train_on(
            model, train, self.own_validation(model) or validate, whole=label_loss, penalty=penalty, training=settings
        )

    folds: Int[Tensor, " N"] | None = None
    """Which network of an ensemble does not learn from each training sequence; `None`: all learn from all."""

    def own_validation(self, model: Labeller) -> Callable[[Any], float] | None:
        """How a model is validated otherwise than by the nats of what it predicts."""
        return None

    @property
    def held_out(self) -> tuple[Labelled, str]:
        """What the model is evaluated on: the test part, or the validation part where there is none."""
        part, name = (self.parts.test, "test") if len(self.parts.test) else (self.parts.valid, "validation")
        if not len(part):
            raise OptionError("this run has no test part and no validation part of its own. Name another file.")
        return part, name

    def _read(self, data: str, *, labelled: bool = True) -> Labelled:
        """Another file, with the columns that were trained on."""
        return read_labelled(data, self.how((self.vocabulary or {})["columns"], labelled=labelled))

    def evaluate(self, model: Labeller, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Accuracy, macro F1 and nats, beside the most frequent class; of two classes the ROC AUC too."""
        part, name = self.held_out if data is None else (self._read(data), data)
        batches = self.make_batches(part, name)
        found = evaluate_labels(model, batches)
        scores = {self.called: found.scores}
        if baselines:
            seen = torch.tensor(list(self.names.counts.values()))
            scores[f"always {self.names.names[int(seen.argmax())]}"] = most_frequent(seen, found.counts).scores
        if len(self.names) == 2:  # of a constant, every pair is a tie
            for row in scores.values():
                row["AUC"] = 0.5
            chances = torch.cat(predict_labels(model, batches))[:, 1]
            scores[self.called]["AUC"] = auc(chances, self.names.encode(part, name))
        confusion = Confusion(self.names.names, found.counts.tolist())
        return Evaluation(name, found.total, scores, self.units, confusion)

    def predict(self, model: Labeller, data: str | None = None) -> Predictions:
        """The labels of each sequence of a file, which need have none; or of the run's own test part."""
        part = self.held_out[0] if data is None else self._read(data, labelled=False)
        found = predict_labels(model, self.make_batches(replace(part, labels=None), str(data)))
        return Predictions([self.describe(probabilities) for probabilities in found])

    def examples(self, model: Labeller) -> Examples:
        whole = self.held_out[0]
        part = whole.take(list(range(min(SHOWN, len(whole)))))
        found = predict_labels(model, self.make_batches(replace(part, labels=None), "held out"))
        rows = []
        for sequence, true, chances in zip(part.sequences, part.labels or (), found, strict=True):
            row = self.describe(chances)
            if self.per_step:
                rows.append((_shown(sequence), " ".join(row["tags"]), " ".join(map(str, true))))
            else:
                rows.append((_shown(sequence), f"{row['label']} ({row['probability']:.2f})", str(true)))
        return Examples(("sequence", "predicted", "true"), rows, "predict RUN")

    @abstractmethod
    def describe(self, probabilities: Tensor) -> dict[str, Any]:
        """The probabilities of one sequence as a row of predictions."""

    def probe(self, model: Labeller, steps: int) -> Probe:
        """Tokens at random, each as probable; or numbers as training data has them in size: noise of mean 0 and deviation 1."""
        random, encoder = torch.Generator().manual_seed(0), self.encoder
        steps *= 1 if model.front is None else model.front.pool
        if encoder.are_tokens:
            inputs = torch.randint(encoder.size, (8, steps), generator=random)
        else:
            inputs = torch.randn(8, steps, encoder.size, generator=random, dtype=self.settings.precision)
        with torch.no_grad():
            x = model.embed(inputs.to(model.output.weight.device))
            if model.front is not None:
                x = model.front(x.transpose(0, 1), torch.full((8,), steps, device=x.device))[0].transpose(0, 1)
        return Probe(model.recurrent, x)

    def _no_automaton(self) -> str | None:
        """Why no automaton reads as the model does."""
        model = self.settings.model
        if not isinstance(self.encoder, Tokens) or model.bidirectional or model.convolution is not None:
            return (
                f"{self.settings.name}: an automaton reads tokens in one direction. Train on tokens with "
                "model.bidirectional=false and no convolution."
            )
        head = getattr(model, "head", "last")
        if head != "last":
            return f"model.head={head} looks at all steps; an automaton at the last. Train with model.head=last."
        return None

    @property
    def lacks(self) -> tuple[str, ...]:
        return ("automaton",) if self._no_automaton() else ()

    def reading(self, model: Labeller) -> Reading:
        """A label after every token, of models that read tokens forward alone and predict by the last step."""
        if reason := self._no_automaton():
            raise OptionError(reason)
        values, lengths = self.encoder.encode(self.parts.train, self.settings.precision)
        T = int(lengths.median())
        firsts = (lengths.cumsum(0) - lengths)[lengths >= T]

        def draw(count: int, seed: int) -> Tensor:
            """The beginnings of sequences that are long enough; those of seeds 3k, 3k + 1 and 3k + 2 are never the same."""
            own = firsts[seed % 3 :: 3]
            rows = torch.randperm(len(own), generator=torch.Generator().manual_seed(seed))[:count]
            return values[own[rows][:, None] + torch.arange(T)]

        assert model.embedding is not None
        return Reading(
            model.recurrent, model.embedding.weight, model.output, self.input_names(), self.names.names, draw
        )

    def input_names(self) -> list[str]:
        if not isinstance(self.encoder, Tokens):
            return []
        return [self.encoder.tokenizer.decode([k]) for k in range(self.encoder.size)]

    def output_names(self) -> list[str]:
        return self.names.names

    def embeddings(self, model: Labeller) -> Embeddings:
        """The vectors of tokens, looked at."""
        if model.embedding is None:
            raise OptionError(f"{self.settings.name}: this model reads numbers, which have no vectors of their own.")
        return look_at_embeddings(model.embedding.weight, self.input_names())


def _shown(sequence: Any) -> str:
    """The beginning of a sequence, or its size."""
    if isinstance(sequence, str):
        return sequence if len(sequence) <= 200 else f"{sequence[:200]} …"
    if isinstance(sequence, list):
        return " ".join(map(str, sequence[:60])) + (" …" if len(sequence) > 60 else "")
    return " × ".join(str(size) for size in np.shape(sequence)) + " numbers"
