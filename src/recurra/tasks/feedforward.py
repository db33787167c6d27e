"""Classification by feed-forward networks: the settings, and how they become data, model and trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recurra.data.batches import Batch
from recurra.data.classes import Labelled, LabelledBatches
from recurra.data.images import read_images
from recurra.data.number_table import read_table
from recurra.data.plane import TASKS, synthetic
from recurra.data.text import split_lines
from recurra.errors import DataError, OptionError, choose_from
from recurra.models.feedforward import (
    PHI,
    POOLING,
    Feedforward,
    basis_expansion,
    convolutional,
    linear_classifier,
    multilayer,
)
from recurra.tasks.task import (
    SHOWN,
    Evaluation,
    Examples,
    Question,
    Recipe,
    Settings,
    Task,
    check_shares,
    check_whole,
    unused_data,
)
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.types import Float, setting

KINDS = ("linear", "basis", "layers", "convolution")
ONLY = {
    "linear": (),
    "basis": ("basis", "degree", "centres"),
    "layers": ("hidden_size", "layers", "activation", "residual", "dropout"),
    "convolution": (
        *("hidden_size", "layers", "activation", "residual", "dropout"),
        *("channels", "kernel", "pooling"),
    ),
}
"""The settings that each kind of model reads."""
HELD_OUT = 1000
"""How many made-up points choose the model, and how many test it."""


@dataclass(frozen=True)
class FeedforwardData:
    path: str | None = setting(
        None, "a table (.csv, .tsv, .txt), or images (.npz, .npy, IDX; gzip too); none: points that are made up"
    )
    label: str | None = setting(None, "the table's column of labels, by name or number; none: guessed, and said")
    label_file: str | None = setting(None, "the labels of .npy and IDX images; none: the file named labels beside them")
    task: str = setting("spirals", "what is made up: spirals, xor or circles")
    count: int = setting(2000, "how many made-up points to learn from")
    noise: float = setting(0.01, "added to each coordinate of made-up points")
    valid: float = setting(0.15, "the share of a file's examples that chooses the model")
    test: float = setting(0.15, "the share of a file's examples that is kept for the last evaluation")

    def check(self) -> None:
        choose_from("data.task", self.task, TASKS)
        if self.count < 2:
            raise OptionError(f"data.count must be at least 2; got {self.count}.")
        if self.noise < 0:
            raise OptionError(f"data.noise must not be negative; got {self.noise}.")
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class FeedforwardModel:
    kind: str = setting("layers", "linear, basis, layers or convolution")
    hidden_size: int = setting(32, "units of each layer")
    layers: int = setting(2, "how many there are, above convolutions too")
    activation: str = setting("relu", "tanh, sigmoid, relu, softplus or linear")
    residual: bool = setting(False, "a layer's input is added to its output, where they have the same size")
    dropout: float = setting(0.0, "of the outputs of each layer")
    basis: str = setting("polynomial", "basis functions: polynomial and radial are fixed, learned ones are radial too")
    degree: int = setting(3, "of polynomials")
    centres: int = setting(64, "how many radial functions")
    channels: tuple[int, ...] = setting((16, 32), "maps of each convolution")
    kernel: int = setting(3, "width and height of the filters")
    pooling: str = setting("max", "over squares of 2 × 2 after each convolution: max, average or none")

    def check(self) -> None:
        choose_from("model.kind", self.kind, KINDS)
        choose_from("model.activation", self.activation, PHI)
        choose_from("model.basis", self.basis, ("polynomial", "radial", "learned"))
        choose_from("model.pooling", self.pooling, POOLING)
        usual, read = FeedforwardModel(), ONLY[self.kind]
        for name in sorted({each for names in ONLY.values() for each in names} - set(read)):
            if getattr(self, name) != getattr(usual, name):
                kinds = " and ".join(kind for kind, names in ONLY.items() if name in names)
                raise OptionError(f"model.{name} is for model.kind={kinds}; this one is {self.kind}. Leave it out.")
        for name in ("hidden_size", "degree", "centres", "kernel"):
            if getattr(self, name) < 1:
                raise OptionError(f"model.{name} must be at least 1; got {getattr(self, name)}.")
        if self.layers < 0:
            raise OptionError(f"model.layers must not be negative; got {self.layers}.")


@dataclass(frozen=True)
class FeedforwardSettings(Settings):
    model: FeedforwardModel = field(default_factory=FeedforwardModel)  # type: ignore[assignment]  # settings of its own
    data: FeedforwardData = field(default_factory=FeedforwardData)

    def check(self) -> None:
        super().check()
        check_whole(self.training, "examples of one size")
        if self.engine != "auto":
            raise OptionError(f"engine={self.engine} runs recurrent cells, and there is none here. Leave it out.")

    def unused(self) -> dict[str, str]:
        model, data = self.model, self.data
        found = super().unused()
        found |= unused_data(data.path, ("label", "label_file", "valid", "test"), ("task", "count", "noise"))
        if model.kind == "basis":
            other = "centres" if model.basis == "polynomial" else "degree"
            found[f"model.{other}"] = f"it is of another basis, and model.basis={model.basis}"
        return found


@dataclass(frozen=True, eq=False)
class Parts:
    """Examples to learn from, to choose by, and to test with."""

    train: Labelled
    valid: Labelled
    test: Labelled


def read_parts(data: FeedforwardData, seed: int) -> Parts:
    """The recipe's examples."""
    if data.path is None:
        # three seeds that are never the same, whatever the recipe's own is
        sizes = (data.count, HELD_OUT, HELD_OUT)
        return Parts(*(synthetic(data.task, size, 3 * seed + k, data.noise) for k, size in enumerate(sizes)))
    examples = read_labelled(data.path, data.label, data.label_file)
    parts = split_lines(range(len(examples)), data.valid, data.test, seed)
    if not parts[0] or not parts[1]:
        raise DataError(f"{examples.about}: too few to learn from and to choose by. Give more.")
    return Parts(*(examples.take(part) for part in parts))


def read_labelled(
    path: str, label: str | None, label_file: str | None, known: dict[str, Any] | None = None
) -> Labelled:
    """A table or images, by the ending of the file's name. `known`: what a trained model reads and says."""
    name = Path(path).name.removesuffix(".gz")
    is_table = name.endswith((".csv", ".tsv", ".txt"))
    known = known or {}
    if is_table:
        if label_file is not None:
            raise OptionError(
                "data.label_file is for images; the labels of a table are one of its columns: data.label."
            )
        return read_table(path, label, columns=known.get("columns"), classes=known.get("classes"))
    if label is not None:
        raise OptionError(f"data.label names a column of a table (.csv, .tsv, .txt), but {path} holds images.")
    return read_images(path, label_file, classes=known.get("classes"))


class FeedforwardTask(Task[Feedforward]):
    """A feed-forward classifier. With the vocabulary of a run folder, data is not needed until it is trained or judged."""

    unit = "example"

    def __init__(self, recipe: FeedforwardSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._vocabulary = vocabulary

    @cached_property
    def parts(self) -> Parts:
        return read_parts(self.settings.data, self.settings.seed)

    @cached_property
    def vocabulary(self) -> dict[str, Any]:
        """What goes in and what comes out: the shape and the range of inputs, their names, the classes."""
        if self._vocabulary is not None:
            return self._vocabulary
        train = self.parts.train
        kept: dict[str, Any] = {"shape": list(train.shape), "classes": list(train.classes)}
        if train.columns:
            low, high = train.x.min(0).values, train.x.max(0).values
            kept |= {"columns": list(train.columns), "low": low.tolist(), "high": high.tolist()}
        return kept

    @property
    def about_data(self) -> str:
        train = self.parts.train
        return f"{train.about}, {len(train):,} to learn from, {len(train.classes)} classes"

    def about_model(self, model: Feedforward) -> str:
        return f"{self.called} with {sum(each.numel() for each in model.parameters()):,} parameters"

    @property
    def called(self) -> str:
        model = self.settings.model
        match model.kind:
            case "linear":
                return "linear"
            case "basis":
                size = f"degree {model.degree}" if model.basis == "polynomial" else f"{model.centres} centres"
                return f"{model.basis} basis, {size}"
            case "layers":
                return f"{model.layers} × {model.hidden_size} {model.activation}"
        return f"convolutions {'-'.join(str(n) for n in model.channels)} {model.activation}"

    def make_model(self) -> Feedforward:
        model, shape, classes = self.settings.model, self.vocabulary["shape"], len(self.vocabulary["classes"])
        makers: dict[str, Callable[..., Feedforward]] = {
            "linear": linear_classifier,
            "basis": basis_expansion,
            "layers": multilayer,
            "convolution": convolutional,
        }
        options = {name: getattr(model, name) for name in ONLY[model.kind]}
        return makers[model.kind](shape, classes, **options)

    def make_batches(self, examples: Labelled, *, training: bool) -> LabelledBatches:
        size = self.settings.training.batch_size if training else 512
        return LabelledBatches(
            examples, size, seed=self.settings.seed, shuffle=training, rank=self.ranks.rank, world=self.ranks.world
        )

    def make_trainer(self, model: Feedforward) -> Trainer:
        train = self.parts.train
        model.prepare(train.x.to(model.output.weight.device))
        valid = self.make_batches(self.parts.valid, training=False)
        return Trainer(
            model,
            self.make_batches(train, training=True),
            self.settings.training,
            lambda judged: score(judged, valid, self.ranks).nats,
            whole=classification_loss,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    @torch.no_grad()
    def examples(self, model: Feedforward) -> Examples:
        held_out = self.parts.test if len(self.parts.test) else self.parts.valid
        some = held_out.take(range(min(SHOWN, len(held_out))))
        chances = model(some.x.to(model.output.weight.device)).softmax(-1).cpu()
        rows = []
        for x, label, row in zip(some.x, some.labels.tolist(), chances, strict=True):
            read = (
                " ".join(f"{value:.3g}" for value in x.tolist()[:8]) if x.ndim == 1 else " × ".join(map(str, x.shape))
            )
            best = int(row.argmax())
            rows.append((read, f"{some.classes[best]} ({float(row[best]):.2f})", some.classes[label]))
        return Examples(("example", "said", "true"), rows, "evaluate RUN")

    def evaluate(self, model: Feedforward, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError(
                "--window and --dynamic are for language models; these examples have no symbols before them."
            )
        data = self.settings.data
        if question.data is not None:
            examples, name = read_labelled(question.data, data.label, None, self.vocabulary), question.data
        else:
            examples, name = (self.parts.test, "test") if len(self.parts.test) else (self.parts.valid, "validation")
        made = score(model, self.make_batches(examples, training=False))
        scores = {self.called: {"nats": made.nats, "accuracy": made.accuracy or 0.0}}
        if question.baselines:
            scores["most frequent class"] = most_frequent(self.parts.train, examples)
        return Evaluation(name, made.tokens, scores)


def classification_loss(model: Feedforward, batch: Batch) -> Float[Tensor, ""]:
    """The negative log-likelihood of the classes, summed."""
    logits = model(batch.inputs[:, 0].to(model.output.weight.device))
    return torch.nn.functional.cross_entropy(logits, batch.targets[:, 0].to(logits.device), reduction="sum")


def score(model: Feedforward, batches: LabelledBatches, ranks: Ranks = Ranks()) -> Score:
    """One pass. The model is left in its mode."""
    device = model.output.weight.device
    return evaluate_whole(model, batches, lambda batch: model(batch.inputs[:, 0].to(device))[:, None], ranks)


def most_frequent(train: Labelled, test: Labelled) -> dict[str, float]:
    """What counting alone gives: the shares of the classes as their probability (one more of each), the largest as the answer."""
    counts = torch.bincount(train.labels, minlength=len(train.classes)).double() + 1
    nats = -(counts / counts.sum()).log()[test.labels].mean()
    return {"nats": float(nats), "accuracy": float((test.labels == counts.argmax()).double().mean())}


def window_of(task: FeedforwardTask) -> tuple[Sequence[float], Sequence[float]]:
    """The smallest and the largest value of each input that was learned from, with a tenth of room around."""
    low, high = (torch.tensor(task.vocabulary[name], dtype=torch.float64) for name in ("low", "high"))
    room = 0.1 * (high - low).clamp(min=1e-9)
    return (low - room).tolist(), (high + room).tolist()


RECIPES: dict[str, Recipe] = {
    "feedforward": Recipe(
        FeedforwardSettings(
            name="feedforward",
            training=Training(steps=1500, batch_size=128, learning_rate=1e-2, validate_every=250, save_every=500),
        ),
        "classes of table rows or images (data.path=FILE) or of made-up points, without recurrence: model.kind=linear, basis, "
        "layers, convolution",
    ),
}
