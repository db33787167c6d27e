"""Classification by feed-forward networks: the settings, and how they become data, model and trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.data.batches import Batch
from recurra.data.classes import Labelled, LabelledBatches
from recurra.data.images import read_images
from recurra.data.number_table import read_table
from recurra.data.plane import TASKS, synthetic
from recurra.data.text import split_lines
from recurra.errors import DataError, OptionError
from recurra.models.feedforward import (
    PHI,
    POOLING,
    Feedforward,
    basis_expansion,
    convolutional,
    linear_classifier,
    multilayer,
)
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Evaluation, Examples
from recurra.tasks.task import Settings, Task, check_shares, count_parameters, of_files, of_synthetic
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Score, evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.types import DEEPEST, MOST, Float, setting

KINDS = ("linear", "basis", "layers", "convolution")
ONLY = {
    "linear": (),
    "basis": ("basis", "degree", "centres"),
    "layers": ("hidden_size", "layers", "activation", "residual", "dropout"),
    "convolution": ("hidden_size", "layers", "activation", "residual", "dropout", "channels", "kernel", "pooling"),
}
"""The settings that each kind of model reads."""
HELD_OUT = 1000
"""How many synthetic points choose the model, and how many test it."""


def _read_by(name: str) -> Any:
    """Idle where a model of this kind does not read the setting."""

    def idle(settings: Any) -> str | None:
        kind, basis = settings.model.kind, settings.model.basis
        if name not in ONLY[kind]:
            kinds = " and ".join(each for each, names in ONLY.items() if name in names)
            return f"it is for model.kind={kinds}; this one is {kind}"
        if name == ("centres" if basis == "polynomial" else "degree"):
            return f"it is of another basis, and model.basis={basis}"
        return None

    return idle


@dataclass(frozen=True)
class FeedforwardData:
    path: str | None = setting(
        None, "a table (.csv, .tsv, .txt), or images (.npz, .npy, IDX; gzip too); none: synthetic points"
    )
    label: str | None = setting(
        None, "the table's column of labels, by name or number; none: guessed, and printed", idle=of_files
    )
    label_file: str | None = setting(
        None, "the labels of .npy and IDX images; none: the file named labels beside them", idle=of_files
    )
    task: str = setting("spirals", "synthetic points: spirals, xor or circles", choices=TASKS, idle=of_synthetic)
    count: int = setting(2000, "how many synthetic points to learn from", low=2, most=MOST, idle=of_synthetic)
    noise: float = setting(0.01, "added to each coordinate of synthetic points", low=0, idle=of_synthetic)
    valid: float = setting(0.15, "the share of a file's examples that chooses the model", idle=of_files)
    test: float = setting(0.15, "the share of a file's examples that is kept for the last evaluation", idle=of_files)

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class FeedforwardModelSettings:
    kind: str = setting("layers", "linear, basis, layers or convolution", choices=KINDS)
    hidden_size: int = setting(32, "units of each layer", low=1, most=MOST, idle=_read_by("hidden_size"))
    layers: int = setting(2, "how many there are, above convolutions too", low=0, most=DEEPEST, idle=_read_by("layers"))
    activation: str = setting(
        "relu", "tanh, sigmoid, relu, softplus or linear", choices=PHI, idle=_read_by("activation")
    )
    residual: bool = setting(
        False, "a layer's input is added to its output, where they have the same size", idle=_read_by("residual")
    )
    dropout: float = setting(0.0, "of the outputs of each layer", idle=_read_by("dropout"))
    basis: str = setting(
        "polynomial",
        "basis functions: polynomial and radial are fixed, learned ones are radial too",
        choices=("polynomial", "radial", "learned"),
        idle=_read_by("basis"),
    )
    degree: int = setting(3, "of polynomials", low=1, most=DEEPEST, idle=_read_by("degree"))
    centres: int = setting(64, "how many radial functions", low=1, most=MOST, idle=_read_by("centres"))
    channels: tuple[int, ...] = setting((16, 32), "maps of each convolution", idle=_read_by("channels"))
    kernel: int = setting(3, "width and height of the filters", low=1, most=MOST, idle=_read_by("kernel"))
    pooling: str = setting(
        "max",
        "over squares of 2 × 2 after each convolution: max, average or none",
        choices=POOLING,
        idle=_read_by("pooling"),
    )


@dataclass(frozen=True)
class FeedforwardSettings(Settings):
    whole: ClassVar[str | None] = "examples of one size"
    model: FeedforwardModelSettings = field(default_factory=FeedforwardModelSettings)
    data: FeedforwardData = field(default_factory=FeedforwardData)

    def idle(self) -> dict[str, str]:
        return {"engine": "engines run recurrent cells, and there is none here"}


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
        seeds = ((3 * seed + k + 2**63) % 2**64 - 2**63 for k in range(len(sizes)))  # a seed of torch has 64 bits
        return Parts(*(synthetic(data.task, size, own, data.noise) for size, own in zip(sizes, seeds, strict=True)))
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
    """A feed-forward classifier. With the vocabulary of a run folder, data is needed only for training and evaluation."""

    data_kind = "table"
    keeps: ClassVar[Any] = {"shape": [int], "classes": [str], "columns?": [str], "low?": [float], "high?": [float]}
    unit = "example"
    evaluated_together = 512

    @cached_property
    def parts(self) -> Parts:
        return read_parts(self.settings.data, self.settings.seed)

    def make_vocabulary(self) -> dict[str, Any]:
        """What goes in and what comes out: the shape and the range of inputs, their names, the classes."""
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
        return f"{self.called} with {count_parameters(model):,} parameters"

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
        model, known = self.settings.model, self.vocabulary or {}
        makers: dict[str, Callable[..., Feedforward]] = {
            "linear": linear_classifier,
            "basis": basis_expansion,
            "layers": multilayer,
            "convolution": convolutional,
        }
        options = {name: getattr(model, name) for name in ONLY[model.kind]}
        return makers[model.kind](known["shape"], len(known["classes"]), **options)

    def make_batches(self, examples: Labelled, *, training: bool) -> LabelledBatches:
        return LabelledBatches(examples, **self.batch_options(training=training))

    def make_trainer(self, model: Feedforward) -> Trainer:
        train = self.parts.train
        model.prepare(train.x.to(model.output.weight.device))
        valid = self.make_batches(self.parts.valid, training=False)
        batches = self.make_batches(train, training=True)
        return self.train_on(
            model, batches, lambda model: score(model, valid, self.ranks).nats, whole=classification_loss
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
        return Examples(("example", "predicted", "true"), rows, "evaluate RUN")

    def evaluate(self, model: Feedforward, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """Nats and accuracy, beside the most frequent class."""
        if data is not None:
            examples, name = read_labelled(data, self.settings.data.label, None, self.vocabulary), data
        else:
            examples, name = (self.parts.test, "test") if len(self.parts.test) else (self.parts.valid, "validation")
        made = score(model, self.make_batches(examples, training=False))
        scores = {self.called: {"nats": made.nats, "accuracy": made.accuracy or 0.0}}
        if baselines:
            scores["most frequent class"] = most_frequent(self.parts.train, examples)
        return Evaluation(name, made.tokens, scores, self.units)

    def window(self) -> tuple[Sequence[float], Sequence[float]]:
        """The smallest and the largest value of each input that was learned from, with a tenth of room around."""
        low, high = (torch.tensor((self.vocabulary or {})[name], dtype=torch.float64) for name in ("low", "high"))
        room = 0.1 * (high - low).clamp(min=1e-9)
        return (low - room).tolist(), (high + room).tolist()

    def region_labels(self) -> dict[str, Any]:
        """Names of classes and columns; some held-out points with their labels, unless their file is gone."""
        found = {name: (self.vocabulary or {})[name] for name in ("classes", "columns")}
        with suppress(DataError):
            some = self.parts.valid.take(range(min(300, len(self.parts.valid))))
            found |= {"points": some.x, "labels": some.labels}
        return found


def classification_loss(model: Feedforward, batch: Batch) -> Float[Tensor, ""]:
    """The negative log-likelihood of the classes, summed."""
    logits = model(batch.inputs[:, 0].to(model.output.weight.device))
    return torch.nn.functional.cross_entropy(logits, batch.targets[:, 0].to(logits.device), reduction="sum")


def score(model: Feedforward, batches: LabelledBatches, ranks: Ranks = Ranks()) -> Score:
    """One pass. The model is left in its mode."""
    device = model.output.weight.device
    return evaluate_whole(model, batches, lambda batch: model(batch.inputs[:, 0].to(device))[:, None], ranks)


def most_frequent(train: Labelled, test: Labelled) -> dict[str, float]:
    """What counting alone gives: the shares of the classes (one more of each) as their probability."""
    counts = torch.bincount(train.labels, minlength=len(train.classes)).double() + 1
    nats = -(counts / counts.sum()).log()[test.labels].mean()
    return {"nats": float(nats), "accuracy": float((test.labels == counts.argmax()).double().mean())}


@recipe(FeedforwardTask)
def feedforward() -> FeedforwardSettings:
    """classes of table rows or images (data.path=FILE) or of synthetic points, without recurrence: model.kind=linear, basis,
    layers, convolution"""
    return FeedforwardSettings(
        training=Training(steps=1500, batch_size=128, learning_rate=1e-2, validate_every=250, save_every=500)
    )
