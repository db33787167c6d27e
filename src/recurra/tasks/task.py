"""What every recipe has: settings with one line about each, and how they become an task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from recurra.analysis.automata.reading import Reading
from recurra.cells.catalogue import find_cell
from recurra.errors import OptionError, choose_from
from recurra.layers.recurrent import Recurrent
from recurra.metrics.forecast import Forecast
from recurra.models.sequence import SequenceModel
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.training.distributed import Ranks
from recurra.training.loop import Loop, Training
from recurra.training.tree_penalty import MOST_STEPS, Steps, TreePenalty
from recurra.types import setting


@dataclass(frozen=True)
class Model:
    cell: str = setting("lstm", "a name, NAME(option=value), or FILE.py:NAME")
    hidden_size: int = setting(256, "units of each layer")
    layers: int = setting(1, "how many are stacked")
    embedding_size: int | None = setting(None, "size of a symbol's vector; none: hidden_size")
    dropout: float = setting(0.0, "variational, between layers and of outputs")
    input_dropout: float | None = setting(None, "variational, of inputs; none: as model.dropout")
    weight_dropout: float = setting(0.0, "of recurrent weights")
    tied: bool = setting(False, "the softmax uses the embedding's matrix")
    residual: bool = setting(False, "from the second layer on, a layer's input is added to its output")
    learn_initial: bool = setting(False, "the state before the first step is a parameter")

    def check(self) -> None:
        for name in ("hidden_size", "layers", "embedding_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise OptionError(f"model.{name} must be at least 1; got {getattr(self, name)}.")


@dataclass(frozen=True)
class StepModel(Model):
    """Of models that say something at every step."""

    deep_input: int = setting(0, "extra tanh layers from a symbol's vector to the recurrent layers")
    deep_output: int = setting(0, "extra tanh layers from the recurrent layers to the prediction")

    def check(self) -> None:
        super().check()
        for name in ("deep_input", "deep_output"):
            if getattr(self, name) < 0:
                raise OptionError(f"model.{name} must not be negative; got {getattr(self, name)}.")


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on. Each kind of task adds its `data`."""

    says_classes: ClassVar[bool] = False
    """Whether the model says one of some classes at each step, so that a decision tree can mimic it."""

    name: str = setting("", "which recipe this is")
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)
    seed: int = setting(0, "where every random number starts from")
    engine: str = setting("auto", "auto, or the name of an engine")
    device: str = setting("cpu", "cpu or cuda")
    dtype: str = setting("float32", "float32, float64, or bfloat16 (autocast)")

    @property
    def precision(self) -> torch.dtype:
        """What weights are kept in."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    def check(self) -> None:
        choose_from("dtype", self.dtype, ("float32", "float64", "bfloat16"))
        check_device(self.device)
        if not abs(self.seed) < 2**63:
            raise OptionError(f"seed={self.seed} is too large: a seed has 63 bits.")
        if getattr(self.training, "tree", 0) and not self.says_classes:
            raise OptionError(
                f"training.tree={self.training.tree} is for models that name a class at each step: tag, "
                "signal-and-noise, events. Leave it out."
            )

    def unused(self) -> dict[str, str]:
        """Settings that would change nothing beside the others, each with the reason. Whoever gives one is told."""
        found = {}
        model, training = self.model, self.training
        if isinstance(training, Training):
            if training.optimiser != "sgd":
                found["training.momentum"] = f"it is of sgd, and training.optimiser={training.optimiser}"
            found |= unused("training", ("length", "reset"), "it is for one long text in lanes")
        if isinstance(model, Model):
            if model.layers == 1:
                found["model.residual"] = "it begins with the second layer, and model.layers=1"
            if not find_cell(model.cell).graph.matrices:
                found["model.weight_dropout"] = f"it is of recurrent weights, and {model.cell} has none"
        return found


def unused(group: str, names: Iterable[str], why: str) -> dict[str, str]:
    """The same reason for several settings of a group."""
    return {f"{group}.{name}": why for name in names}


def unused_data(path: str | None, of_files: Iterable[str], made_up: Iterable[str]) -> dict[str, str]:
    """Of data that is read from a file or made up: the settings that are only for the other."""
    if path is None:
        return unused("data", of_files, "it is for files, and no data.path is given")
    return unused("data", made_up, f"it is for data that is made up, and data.path={path}")


def check_device(device: str) -> None:
    choose_from("device", device, ("cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device=cuda was asked for, but torch finds no CUDA device here. Use device=cpu.")


def check_shares(valid: float, test: float) -> None:
    """Refuse shares of the data that leave nothing to train on, or to choose a model by."""
    if not (0 < valid < 1 and 0 <= test < 1 and valid + test < 1):
        raise OptionError(f"data.valid={valid} and data.test={test} must leave something to train on.")


def check_whole(training: Training, what: str) -> None:
    """Refuse settings of the way through time, where examples are learned as a whole."""
    usual = Training()
    for name in ("truncation", "feeding", "over_time", "length", "reset"):
        if getattr(training, name) not in (getattr(usual, name), "none"):
            raise OptionError(
                f"training.{name}={getattr(training, name)} is for sequences that are read step by step; {what} are learned "
                f"whole. Leave it out."
            )


@dataclass(frozen=True)
class Recipe:
    """A recipe with settings that work, under its name, and what it is for."""

    recipe: Settings
    about: str


@dataclass(frozen=True)
class Question:
    """What an evaluation is asked: other data than the run's own, baselines, and more costly company."""

    data: str | None = None
    baselines: bool = True
    window: int | None = None
    dynamic: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Scores by model; each is a row of named numbers. `steps`: how many predictions they are the mean of.

    `confusion`: where there are classes, their names and how often each (row) was taken for each (column).
    `outlook`: of forecasts, one of them, with what came true.
    """

    data: str
    steps: int
    scores: dict[str, dict[str, float]]
    confusion: tuple[list[str], list[list[int]]] | None = None
    outlook: Forecast | None = None


@dataclass(frozen=True)
class Examples:
    """What a model writes, or says about a few inputs that it never saw: rows of text under their columns.

    - `command`: what comes after `recurra` to see more of them; the run's folder stands as RUN.
    - `lines`: where they are a series, by name, steps and values to draw.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    command: str
    lines: dict[str, tuple[list[float], list[float]]] | None = None


SHOWN = 8
"""How many examples are shown."""


def forecast_examples(ahead: Forecast) -> Examples:
    """The first column of a forecast, beside as much of what was known."""
    name, steps = ahead.names[0], len(ahead.predictions)
    past, said = ahead.known[-steps:, 0].tolist(), ahead.predictions[:, 0].tolist()
    lines = {
        f"{name}, known": ([float(k) for k in range(1 - len(past), 1)], past),
        f"{name}, forecast": ([float(k) for k in range(1, steps + 1)], said),
    }
    rows = [(str(k + 1), f"{value:.6g}") for k, value in enumerate(said[:SHOWN])]
    return Examples(("steps ahead", name), rows, f"forecast RUN --steps {steps}", lines)


@dataclass(frozen=True)
class Probe:
    """Typical inputs for looking into a trained network: its recurrent layers, and the vectors `[B, T, D]` that they read."""

    layer: Recurrent
    x: Tensor


@dataclass(frozen=True)
class Triggers:
    """What a network that works as a state machine reads: the vectors `[K, D]` of its triggers by name, the resting one first."""

    names: tuple[str, ...]
    x: Tensor


M = TypeVar("M", bound=nn.Module)


class Task(ABC, Generic[M]):
    """A recipe with its data: what makes the model, trains it and judges it.

    Data is read when it is first needed: a trained model can be opened where its data no longer is.
    """

    unit = "symbol"
    """What is counted and what the loss is per."""

    @property
    def units(self) -> str:
        """Several of them."""
        return self.unit + ("es" if self.unit.endswith("x") else "s")

    factorisation = "One output for each example: P(y | x)."
    """Which joint probability the model computes, in words."""
    verbs: tuple[str, ...] = ("evaluate",)
    """What can be done with a run, on the command line."""

    keeps_vocabulary = True
    """Whether a run folder has what its data was made numbers with; made-up data needs nothing."""

    def __init__(self, recipe: Any, ranks: Ranks):
        self.settings, self.ranks = recipe, ranks

    @property
    @abstractmethod
    def vocabulary(self) -> dict[str, Any] | None:
        """What the run folder keeps so that the model can be used without the data; `None` where nothing is needed."""

    @property
    @abstractmethod
    def about_data(self) -> str:
        """A few words on what is trained on."""

    @abstractmethod
    def make_model(self) -> M:
        """The model, untrained, on the CPU."""

    def model_options(self) -> dict[str, Any]:
        """What every kind of model is told alike."""
        model = self.settings.model
        return {
            "layers": model.layers,
            "dropout": model.dropout,
            "input_dropout": model.dropout if model.input_dropout is None else model.input_dropout,
            "weight_dropout": model.weight_dropout,
            "residual": model.residual,
            "learn_initial": model.learn_initial,
            "engine": self.settings.engine,
        } | ({"deep_input": model.deep_input, "deep_output": model.deep_output} if isinstance(model, StepModel) else {})

    @abstractmethod
    def make_trainer(self, model: M) -> Loop:
        """The model with its batches of data, its loss and its validation."""

    @abstractmethod
    def evaluate(self, model: M, question: Question) -> Evaluation:
        """The model's scores, with baselines beside them."""

    def glimpse(self, model: M) -> str | None:
        """A few words from the model as it is now, to look at while it learns."""
        return None

    def examples(self, model: M) -> Examples | None:
        """A few things that the model writes or says, for a report; `None` where there is nothing to show."""
        return None

    @property
    def called(self) -> str:
        """What the model is called in tables."""
        return f"{self.settings.model.cell}-{self.settings.model.hidden_size}"

    def about_model(self, model: M) -> str:
        """A few words on what is trained."""
        settings = self.settings.training
        said = f"{self.settings.model.cell} with {sum(each.numel() for each in model.parameters()):,} parameters"
        if isinstance(model, SequenceModel):
            said += (
                f", truncation {settings.truncation}, engine {model.recurrent.explain(settings.batch_size).engine.name}"
            )
        return said

    def probe(self, model: M, steps: int) -> Probe:
        """Typical sequences of at least `steps` steps; the data of the run is not needed."""
        raise OptionError(
            f"{self.settings.name} offers no network that reads step by step; explain and --monitor are not for it."
        )

    def frozen_input(self, model: M, name: str) -> Tensor:
        """The vector of an input that is held: `zero`, or what the task has names for."""
        if name == "zero":
            return torch.zeros(self.probe(model, 1).layer.input_size)
        raise OptionError(f"input {name!r} does not exist: {self.settings.name} has numbers as inputs. Use zero.")

    def triggers(self, model: M) -> Triggers | None:
        """The triggers of a state machine; `None` where the task is none."""
        return None

    def reading(self, model: M) -> Reading:
        """The network as something that reads symbols and names classes, for `recurra automaton`."""
        raise OptionError(
            f"{self.settings.name} does not read symbols one by one and name a class after each: no automaton."
        )

    def name_states(self, model: M, hidden: Tensor, after: list[list[int]]) -> list[str]:
        """Names for the states of an automaton that was found, by the outputs and by the transitions between them."""
        return self.says(model, hidden)

    def says(self, model: M, hidden: Tensor) -> list[str]:
        """What the model says at some outputs of its last layer, in a word each: names for attractors."""
        return [""] * len(hidden)

    def steps(self, part: str, most: int | None = None) -> Steps:
        """Steps of the `train`, `valid` or `test` part as a decision tree reads them; at most so many, in whole sequences."""
        raise OptionError(
            f"{self.settings.name} names no class at each step: there is nothing that a tree could mimic."
        )

    def tree_penalty(self, model: M) -> TreePenalty | None:
        """What the setting `training.tree` asks for."""
        strength = self.settings.training.tree
        return TreePenalty(strength, self.steps("train", MOST_STEPS), model, self.settings.seed) if strength else None

    def trainer(self) -> Loop:
        """Everything of a run that is not its folder. Every random number comes from the seed."""
        torch.manual_seed(self.settings.seed)
        device = f"cuda:{self.ranks.local_rank}" if self.settings.device == "cuda" else "cpu"
        return self.make_trainer(self.make_model().to(device, self.settings.precision))

    def untrained_model(self) -> M:
        """The model as it was before the first step of training, to be looked at."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            return self.make_model().to(self.settings.precision).eval()

    def trained(self, checkpoint: Checkpoint, about: str) -> M:
        """The model of a checkpoint: the averaged one, if there is one."""
        model = self.make_model().to(self.settings.precision)
        restore_weights(model, checkpoint.part("average") or checkpoint.weights, about)
        return model.eval()
