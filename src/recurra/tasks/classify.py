"""Classes of whole sequences (`classify`) and of each of their steps (`tag`): the settings, and how they become an task."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.data.encoding import Channels, Names, Tokens, encoder_from_json, fit_encoder, flat_labels
from recurra.data.labelled import How, Labelled, read_labelled
from recurra.data.labelled_batches import LabelledSequences
from recurra.data.tokenizers import Words
from recurra.errors import DataError, OptionError, choose_from
from recurra.metrics.roc_auc import auc
from recurra.models.classify import HEADS, Classifier
from recurra.models.decision_tree import Numbers
from recurra.models.labelling import Labeller
from recurra.models.tag import Tagger
from recurra.tasks.task import (
    SHOWN,
    Evaluation,
    Examples,
    Model,
    Probe,
    Question,
    Recipe,
    Settings,
    Task,
    check_whole,
    unused,
)
from recurra.training.distributed import Ranks
from recurra.training.labelling import evaluate_labels, label_loss, most_frequent, predict_labels
from recurra.training.loop import Trainer, Training
from recurra.training.tree_penalty import Steps
from recurra.types import setting

EVALUATED = 256
"""How many sequences are judged at a time; what is found does not depend on it."""

NOISE = 0.3
"""How much is added to numbers, which have a deviation of 1, unless a recipe says it. Vectors of symbols are far smaller."""

MOST_SYMBOLS = 100
"""How many tokens, the most frequent, a decision tree may ask about."""


@dataclass(frozen=True)
class LabelledData:
    path: str | None = setting(
        None, "a file of labelled sequences: .csv, .tsv, .jsonl, .ts, IDX, .npz; to tag: a token per line"
    )
    test_path: str | None = setting(None, "a file to test on, where the split is given; none: a share of data.path")
    text: str | None = setting(None, "the column with the sequence; none: guessed")
    label: str | None = setting(None, "the column with the label; none: guessed")
    tokens: str = setting("char", "what a symbol of a text is: byte, char, word or bpe")
    min_count: int = setting(1, "symbols seen less often become <unk>")
    max_symbols: int | None = setting(None, "keep this many symbols, the most frequent")
    pixels: bool = setting(False, "images are read pixel by pixel; otherwise row by row")
    permute: bool = setting(False, "the pixels of images in another order, the same for all")
    permute_seed: int = setting(0, "which order that is; the recipe's own seed does not change it")
    valid: float = setting(0.1, "the share of sequences that chooses the model; 0: the last model is kept")
    test: float = setting(0.1, "the share that is kept for the last evaluation, where data.test_path is not given")

    def check(self) -> None:
        choose_from("data.tokens", self.tokens, ("byte", "char", "word", "bpe"))
        if not (0 <= self.valid < 1 and 0 <= self.test < 1 and self.valid + self.test < 1):
            raise OptionError(f"data.valid={self.valid} and data.test={self.test} must leave something to train on.")
        for name in ("min_count", "max_symbols"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class ClassifyData(LabelledData):
    whiten: float = setting(
        0.0,
        "channels are mixed until sequences of a class differ alike in all directions; 0: not at all, below 1: so far",
    )

    def check(self) -> None:
        super().check()
        if not 0 <= self.whiten < 1:
            raise OptionError(f"data.whiten must lie in [0, 1); got {self.whiten}.")


@dataclass(frozen=True)
class LabelModel(Model):
    bidirectional: bool = setting(True, "each layer also reads from the end")
    convolution: int | None = setting(None, "first a convolution over this many steps (odd); none: no convolution")
    noise: float | None = setting(
        0.0, f"size of the normal noise that is added to inputs in training; none: {NOISE} to numbers, 0 to symbols"
    )
    shift: float = setting(0.0, "the same, but one for all steps of a sequence")

    def check(self) -> None:
        super().check()
        for name in ("noise", "shift"):
            if getattr(self, name) is not None and not getattr(self, name) >= 0:
                raise OptionError(f"model.{name} must not be negative; got {getattr(self, name)}.")
        if self.convolution is not None and (self.convolution < 1 or self.convolution % 2 == 0):
            raise OptionError(f"model.convolution must be odd, as many steps before as after; got {self.convolution}.")


@dataclass(frozen=True)
class ClassifyModel(LabelModel):
    head: str = setting("mean", "what a sequence is judged by: last, mean, max or attention")
    pool: int = setting(1, "after the convolution, the largest of so many steps")

    def check(self) -> None:
        super().check()
        choose_from("model.head", self.head, HEADS)
        if self.pool < 1:
            raise OptionError(f"model.pool must be at least 1; got {self.pool}.")
        if self.pool > 1 and self.convolution is None:
            raise OptionError(f"model.pool={self.pool} follows a convolution; give its width too: model.convolution=5.")


@dataclass(frozen=True)
class LabelSettings(Settings):
    data: LabelledData = field(default_factory=LabelledData)

    def check(self) -> None:
        super().check()
        if self.model.tied:
            raise OptionError("model.tied is for language models, which say what they read. Leave it out.")
        check_whole(self.training, "sequences with labels")

    def unused(self) -> dict[str, str]:
        found, data = super().unused(), self.data
        if not data.permute:
            found["data.permute_seed"] = "no order is drawn without data.permute"
        if data.test_path is not None:
            found["data.test"] = f"data.test_path={data.test_path} is what is tested on"
        if data.valid == 0:
            found |= unused("training", ("validate_every", "patience"), "with data.valid=0 the last model is kept")
        return found


@dataclass(frozen=True)
class ClassifySettings(LabelSettings):
    data: ClassifyData = field(default_factory=ClassifyData)
    model: ClassifyModel = field(default_factory=ClassifyModel)


@dataclass(frozen=True)
class TagSettings(LabelSettings):
    says_classes: ClassVar[bool] = True
    model: LabelModel = field(default_factory=LabelModel)


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


def _every(items: list[int], share: float) -> tuple[list[int], list[int]]:
    """Those that are left, and a share of them taken at even distances."""
    counts = np.floor(np.arange(len(items) + 1) * share + 0.5).astype(int)
    taken = np.diff(counts) > 0
    return [k for k, is_in in zip(items, taken, strict=True) if not is_in], [
        k for k, is_in in zip(items, taken, strict=True) if is_in
    ]


class LabelTask(Task[Labeller]):
    """A model that gives labels. With the vocabulary of a run folder, the data is not needed until it is trained or judged."""

    per_step = False
    verbs: tuple[str, ...] = ("evaluate", "predict")

    def __init__(self, recipe: LabelSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    @abstractmethod
    def make_model(self) -> Labeller: ...

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
        known = {} if self._vocabulary is None else self._vocabulary["columns"]
        found = read_labelled(data.path, self.how(known, part="train"))
        self._check_reading(found)
        share = data.test if data.test_path is None else 0.0
        train, valid, test = split(found, data.valid, share, self.settings.seed)
        if data.test_path is not None:
            test = read_labelled(data.test_path, self.how(found.columns))
        if not len(train) or (data.valid and not len(valid)):
            raise DataError(
                f"{data.path} has {len(found)} sequences, too few for data.valid={data.valid} and data.test={share}. "
                "Give more, or smaller shares."
            )
        return Parts(train, valid, test, sorted(set(flat_labels(found))))

    def _check_reading(self, found: Labelled) -> None:
        """Refuse settings that this kind of file has no use for, unless they are the preset's own."""
        idle = [] if found.columns else ["data.text", "data.label"]
        idle += [] if found.kind == "text" else ["data.tokens"]
        idle += (
            [] if found.kind in ("text", "tokens") else ["data.min_count", "data.max_symbols", "model.embedding_size"]
        )
        usual = RECIPES[self.settings.name].recipe
        for group, name in (key.split(".") for key in idle):
            value = getattr(getattr(self.settings, group), name)
            if value != getattr(getattr(usual, group), name):
                raise OptionError(
                    f"{group}.{name}={value} has no effect here: {self.settings.data.path} holds {found.kind}. Leave it out."
                )
        if self.whiten and found.kind in ("numbers", "images") and found.sequences[0].shape[1] == 1:
            raise OptionError(
                f"data.whiten={self.whiten} would change nothing here: it mixes channels, and {self.settings.data.path} is read "
                "as one. Leave it out."
            )

    @property
    def whiten(self) -> float:
        """How far channels are mixed; never, if labels are of steps."""
        return 0.0

    @property
    def about_test(self) -> str:
        """What the test part is called in messages."""
        return str(self.settings.data.test_path)

    @cached_property
    def encoder(self) -> Tokens | Channels:
        if self._vocabulary is not None:
            return encoder_from_json(self._vocabulary["inputs"])
        data = self.settings.data
        return fit_encoder(self.parts.train, data.tokens, data.min_count, data.max_symbols, self.whiten)

    @cached_property
    def names(self) -> Names:
        if self._vocabulary is not None:
            return Names(self._vocabulary["labels"])
        return Names.fit(self.parts.train, self.parts.known)

    @property
    def vocabulary(self) -> dict[str, Any]:
        """How inputs are read, the labels with how often training data had each, and the columns that were read."""
        if self._vocabulary is not None:
            return self._vocabulary
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
        return LabelledSequences(
            values,
            lengths,
            targets,
            self.settings.training.batch_size if training else EVALUATED,
            per_step=self.per_step,
            seed=self.settings.seed,
            shuffle=training,
            rank=0 if alone else self.ranks.rank,
            world=1 if alone else self.ranks.world,
        )

    def label_options(self) -> dict[str, Any]:
        """What classifiers and taggers are told alike."""
        model = self.settings.model
        return self.model_options() | {
            "symbols": self.encoder.are_tokens,
            "embedding_size": model.embedding_size,
            "bidirectional": model.bidirectional,
            "convolution": model.convolution,
            "noise": (0.0 if self.encoder.are_tokens else NOISE) if model.noise is None else model.noise,
            "shift": model.shift,
        }

    def make_trainer(self, model: Labeller) -> Trainer:
        parts, settings = self.parts, self.settings.training
        if len(parts.test):
            self.names.encode(parts.test, self.about_test)  # refused now rather than after training
        if len(parts.valid):
            valid = self.make_batches(parts.valid, "the validation part")
        else:  # nothing to choose by: the model of the last step is kept
            settings = replace(settings, validate_every=settings.steps, patience=None)
            valid = self.make_batches(parts.train, "the training part")
        penalty = self.tree_penalty(model)

        def validate(judged: Labeller) -> float:
            nats = evaluate_labels(judged, valid, self.ranks).nats
            return nats if penalty is None else nats + penalty.of(judged)

        return Trainer(
            model,
            self.make_batches(parts.train, "the training part", training=True),
            settings,
            validate,
            whole=label_loss,
            penalty=penalty,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    @property
    def held_out(self) -> tuple[Labelled, str]:
        """What the model is judged on: the test part, or the validation part where there is none."""
        part, name = (self.parts.test, "test") if len(self.parts.test) else (self.parts.valid, "validation")
        if not len(part):
            raise OptionError("this run has no test part and no validation part of its own. Name another file.")
        return part, name

    def evaluate(self, model: Labeller, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError("--window and --dynamic are for language models; this run gives labels.")
        if question.data is not None:
            part, name = read_labelled(question.data, self.how(self.vocabulary["columns"])), question.data
        else:
            part, name = self.held_out
        batches = self.make_batches(part, name)
        found = evaluate_labels(model, batches)
        scores = {self.called: found.scores}
        if question.baselines:
            seen = torch.tensor(list(self.names.counts.values()))
            scores[f"always {self.names.names[int(seen.argmax())]}"] = most_frequent(seen, found.counts).scores
        if len(self.names) == 2:  # of a constant, every pair is a tie
            for row in scores.values():
                row["AUC"] = 0.5
            said = torch.cat(predict_labels(model, batches))[:, 1]
            scores[self.called]["AUC"] = auc(said, self.names.encode(part, name))
        return Evaluation(name, found.total, scores, (self.names.names, found.counts.tolist()))

    def predict(self, model: Labeller, path: str | None) -> list[dict[str, Any]]:
        """What the model says about each sequence of a file, which need have no labels; or of the run's own test part."""
        how = self.how(self.vocabulary["columns"], labelled=False)
        part = self.held_out[0] if path is None else read_labelled(path, how)
        found = predict_labels(model, self.make_batches(replace(part, labels=None), str(path)))
        return [self.say(probabilities) for probabilities in found]

    def examples(self, model: Labeller) -> Examples:
        whole = self.held_out[0]
        part = whole.take(list(range(min(SHOWN, len(whole)))))
        found = predict_labels(model, self.make_batches(replace(part, labels=None), "held out"))
        rows = []
        for sequence, true, chances in zip(part.sequences, part.labels or (), found, strict=True):
            said = self.say(chances)
            if self.per_step:
                rows.append((_shown(sequence), " ".join(said["tags"]), " ".join(map(str, true))))
            else:
                rows.append((_shown(sequence), f"{said['label']} ({said['probability']:.2f})", str(true)))
        return Examples(("sequence", "said", "true"), rows, "predict RUN")

    @abstractmethod
    def say(self, probabilities: Tensor) -> dict[str, Any]:
        """The probabilities of one sequence in words."""

    def probe(self, model: Labeller, steps: int) -> Probe:
        """Sequences of the training data, end to end."""
        values, _ = self.encoder.encode(self.parts.train, self.settings.precision)
        rows = max(1, min(8, len(values) // steps))
        inputs = torch.cat([values] * -(-steps // len(values)))[: rows * steps].unflatten(0, (rows, steps))
        with torch.no_grad():
            x = model.embed(inputs.to(model.output.weight.device))
            if model.front is not None:
                x = model.front(x.transpose(0, 1), torch.full((rows,), steps, device=x.device))[0].transpose(0, 1)
        return Probe(model.recurrent, x)

    def reading(self, model: Labeller) -> Reading:
        """A label after every symbol, of models that read symbols forward alone and judge by the last step."""
        if not isinstance(self.encoder, Tokens) or self.settings.model.bidirectional or model.front is not None:
            raise OptionError(
                f"{self.settings.name}: an automaton reads symbols in one direction. Train with model.bidirectional=false, no "
                "convolution, on symbols."
            )
        if isinstance(model, Classifier) and model.head != "last":
            raise OptionError(
                f"model.head={model.head} looks at all steps; an automaton at the last. Train with model.head=last."
            )
        values, lengths = self.encoder.encode(self.parts.train, self.settings.precision)
        T = int(lengths.median())
        firsts = (lengths.cumsum(0) - lengths)[lengths >= T]

        def draw(count: int, seed: int) -> Tensor:
            """The beginnings of sequences that are long enough; those of seeds 3k, 3k + 1 and 3k + 2 are never the same."""
            own = firsts[seed % 3 :: 3]
            rows = torch.randperm(len(own), generator=torch.Generator().manual_seed(seed))[:count]
            return values[own[rows][:, None] + torch.arange(T)]

        assert model.embedding is not None
        names = [self.encoder.tokenizer.decode([k]) for k in range(self.encoder.size)]
        return Reading(model.recurrent, model.embedding.weight, model.output, names, self.names.names, draw)

    @torch.no_grad()
    def says(self, model: Labeller, hidden: Tensor) -> list[str]:
        return [self.names.names[k] for k in model.output(hidden.to(model.output.weight.dtype)).argmax(-1).tolist()]


def _shown(sequence: Any) -> str:
    """The beginning of a sequence, or its size."""
    if isinstance(sequence, str):
        return sequence if len(sequence) <= 200 else f"{sequence[:200]} …"
    if isinstance(sequence, list):
        return " ".join(map(str, sequence[:60])) + (" …" if len(sequence) > 60 else "")
    return " × ".join(str(size) for size in np.shape(sequence)) + " numbers"


class ClassificationTask(LabelTask):
    unit = "sequence"

    @property
    def whiten(self) -> float:
        return float(self.settings.data.whiten)

    def make_model(self) -> Classifier:
        model = self.settings.model
        return Classifier(
            self.encoder.size,
            len(self.names),
            model.cell,
            model.hidden_size,
            head=model.head,
            pool=model.pool,
            **self.label_options(),
        )

    def say(self, probabilities: Tensor) -> dict[str, Any]:
        best = int(probabilities[0].argmax())
        return {"label": self.names.names[best], "probability": float(probabilities[0, best])}


class TaggingTask(LabelTask):
    unit = "step"
    verbs = ("evaluate", "predict", "mimic")
    per_step = True
    factorisation = "Tags are independent given the whole sequence: P(y1 … yT | x) = Π P(yt | x1 … xT)."

    def make_model(self) -> Tagger:
        model = self.settings.model
        return Tagger(self.encoder.size, len(self.names), model.cell, model.hidden_size, **self.label_options())

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
        often = counts.argsort(descending=True, stable=True)[:MOST_SYMBOLS].sort().values
        assert isinstance(encoder.tokenizer, Words)  # steps with tags are tokens, never parts of a text
        symbols = encoder.tokenizer.tokens
        return tuple(repr(symbols[k]) for k in often.tolist()), (values[:, None] == often).double().numpy()

    def say(self, probabilities: Tensor) -> dict[str, Any]:
        best = probabilities.max(-1)
        tags = [self.names.names[k] for k in best.indices.tolist()]
        return {"tags": tags, "probabilities": best.values.tolist()}


RECIPES: dict[str, Recipe] = {
    "classify": Recipe(
        ClassifySettings(
            name="classify",
            model=ClassifyModel(cell="gru", hidden_size=64, dropout=0.5, input_dropout=0.0, noise=None),
            training=Training(
                steps=1000,
                batch_size=32,
                truncation="none",
                l2=0.1,
                average="ema:0.99",
                validate_every=50,
                save_every=500,
            ),
        ),
        "any file of sequences with a label each, text or numbers: data.path=FILE",
    ),
    "pixels": Recipe(
        ClassifySettings(
            name="pixels",
            data=ClassifyData(pixels=True, permute=True),
            model=ClassifyModel(
                cell="lru",
                hidden_size=64,
                layers=3,
                dropout=0.1,
                input_dropout=0.0,
                residual=True,
                bidirectional=False,
                head="last",
            ),
            training=Training(
                steps=4000,
                batch_size=64,
                truncation="none",
                learning_rate=1e-2,
                l2=0.01,
                average="ema:0.99",
                validate_every=1000,
                save_every=1000,
            ),
        ),
        "images pixel by pixel in an order without sense, the same for all: a memory of hundreds of steps; data.path=IMAGES",
    ),
    "tag": Recipe(
        TagSettings(
            name="tag",
            data=LabelledData(min_count=2),
            model=LabelModel(cell="lstm", hidden_size=128, embedding_size=64, dropout=0.5, input_dropout=0.2),
            training=Training(
                steps=2000,
                batch_size=32,
                truncation="none",
                l2=0.01,
                average="ema:0.99",
                validate_every=100,
                save_every=500,
            ),
        ),
        "any file of sequences with a label for each step: data.path=FILE",
    ),
}
