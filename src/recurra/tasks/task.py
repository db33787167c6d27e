"""A task: data, model, loss and metrics of one kind of problem, configured. It knows nothing of folders, progress or printing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from recurra.cells.catalogue import find_cell
from recurra.cells.notation import Cell
from recurra.data.batches import Batches
from recurra.errors import OptionError, quoted
from recurra.layers.recurrent import Recurrent
from recurra.models.sequence import SequenceModel
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.tasks import word_vectors
from recurra.tasks.following import belonging
from recurra.tasks.results import Evaluation
from recurra.tasks.settings import override
from recurra.training.distributed import Ranks
from recurra.training.loop import Loop, Trainer, Training
from recurra.training.soundness import check_weights
from recurra.training.tree_penalty import MOST_STEPS, TreePenalty
from recurra.types import DEEPEST, MOST, setting


def has_no_matrices(settings: Any) -> str | None:
    cell = settings.model.cell
    return None if find_cell(cell).graph.matrices else f"it is of recurrent weights, and {cell} has none"


@dataclass(frozen=True)
class ModelSettings:
    cell: str = setting("lstm", "a name, NAME(option=value), FILE.py:NAME, or FILE.json")
    hidden_size: int = setting(256, "units of each layer", low=1, most=MOST)
    layers: int = setting(1, "how many are stacked", low=1, most=DEEPEST)
    embedding_size: int | None = setting(None, "size of a token's vector; none: hidden_size", low=1, most=MOST)
    dropout: float = setting(0.0, "variational, between layers and of outputs")
    input_dropout: float | None = setting(None, "variational, of inputs; none: as model.dropout")
    weight_dropout: float = setting(0.0, "of recurrent weights", idle=has_no_matrices)
    tied: bool = setting(False, "the softmax uses the embedding's matrix")
    residual: bool = setting(
        False,
        "from the second layer on, a layer's input is added to its output",
        idle=lambda s: "it begins with the second layer, and model.layers=1" if s.model.layers == 1 else None,
    )
    learn_initial: bool = setting(False, "the state before the first step is a parameter")
    bias: bool = setting(True, "inputs of the recurrent layers come with a bias", added=True)


@dataclass(frozen=True)
class StepModelSettings(ModelSettings):
    """Of models that predict something at every step."""

    deep_input: int = setting(0, "extra tanh layers from a token's vector to the recurrent layers", low=0, most=DEEPEST)
    deep_output: int = setting(0, "extra tanh layers from the recurrent layers to the prediction", low=0, most=DEEPEST)


@dataclass(frozen=True)
class Settings:
    """Everything that a run depends on. Each kind of task adds its `data`."""

    whole: ClassVar[str | None] = None
    """What is learned as a whole, not step by step, so that truncation and teacher forcing have no part in it."""
    classifies_steps: ClassVar[bool] = False
    """Whether the model predicts a class at each step, so that a decision tree can mimic it."""
    ensembles: ClassVar[bool] = False
    """Whether several networks may be trained side by side."""
    name: str = setting("", "which recipe this is")
    model: Any = field(default_factory=ModelSettings)
    training: Training = field(default_factory=Training)
    seed: int = setting(0, "where every random number starts from", low=1 - 2**63, high=2**63 - 1)
    engine: str = setting("auto", "auto, or the name of an engine")
    device: str = setting("cpu", "cpu or cuda", read=lambda device: check_device(device))
    dtype: str = setting(
        "float32", "float32, float64, or bfloat16 (autocast)", choices=("float32", "float64", "bfloat16")
    )

    @property
    def streams(self) -> bool:
        """Whether training reads one long text in streams, which carry their state from chunk to chunk."""
        return False

    @property
    def precision(self) -> torch.dtype:
        """What weights are kept in."""
        return torch.float64 if self.dtype == "float64" else torch.float32


def of_files(settings: Any) -> str | None:
    """Why a setting that is for files is idle, where the data is synthetic."""
    return None if settings.data.path is not None else "it is for files, and no data.path is given"


def of_synthetic(settings: Any) -> str | None:
    """Why a setting of synthetic data is idle, where a file is read."""
    path = settings.data.path
    return None if path is None else f"it is for synthetic data, and data.path={path:.60}"


def given_valid(settings: Any) -> str | None:
    """Why the share for validation is idle, where a file is that part."""
    path = settings.data.valid_path
    return None if path is None else f"data.valid_path={path:.60} is the validation part"


def given_test(settings: Any) -> str | None:
    """Why the share for the test is idle, where a file is that part."""
    path = settings.data.test_path
    return None if path is None else f"data.test_path={path:.60} is the test part"


def check_device(device: str) -> None:
    if device not in ("cpu", "cuda"):
        raise OptionError(f"device {quoted(device)} does not exist. Known: cpu, cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError("device=cuda was asked for, but torch finds no CUDA device here. Use device=cpu.")


def check_shares(valid: float, test: float, *, chosen: bool = True) -> None:
    """Refuse shares of the data that leave nothing to train on, or (with `chosen`) to choose a model by."""
    if not ((valid > 0 if chosen else valid >= 0) and test >= 0 and valid < 1 and test < 1 and valid + test < 1):
        raise OptionError(f"data.valid={valid} and data.test={test} must leave something to train on.")


M = TypeVar("M", bound=nn.Module)


class Task(ABC, Generic[M]):
    """Settings with their data: what makes the model, trains it and evaluates it.

    Data is read when it is first needed: with the `vocabulary` of a run folder, a trained model can be used where its data no
    longer is. What a task can do beyond this is a capability (`recurra.tasks.capabilities`).
    """

    unit = "token"
    """What is counted and what the loss is per."""
    factorisation = "One output for each example: P(y | x)."
    """Which joint probability the model computes, in words."""
    data_kind: ClassVar[str | None] = None
    """What data given as an object is written as (`recurra.data.in_memory`); `None`: the data is synthetic."""
    keeps: ClassVar[Any] = dict
    """The form of the vocabulary (`recurra.tasks.kept`)."""
    evaluated_together = 256
    """How many sequences are evaluated at a time; what is found does not depend on it."""

    staged: Path | None = None
    """Where data given as an object was written, until a run takes it into its folder."""
    given: frozenset[str] | None = None
    """Keys of the settings that the user gave, of a task that a recipe has just made; others may follow from the data."""

    @classmethod
    def data_options(cls, settings: Any) -> dict[str, bool]:
        """How data given as an object is written."""
        return {}

    @property
    def lacks(self) -> tuple[str, ...]:
        """Verbs that the task refuses as it is configured, although it has their capability."""
        return ()

    def __init__(self, settings: Any, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        self.settings, self.ranks, self.kept = settings, ranks, vocabulary
        self.cells: dict[str, Cell] = {}  # those of a run folder, which are not looked for in files

    def forget(self) -> None:
        """Read the data anew when it is next needed."""
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):
                    self.__dict__.pop(name, None)

    @property
    def units(self) -> str:
        """Several of them."""
        return self.unit + ("es" if self.unit.endswith("x") else "s")

    @cached_property
    def vocabulary(self) -> dict[str, Any] | None:
        """What the run folder keeps so that the model can be used without the data; `None` where nothing is needed."""
        return self.kept if self.kept is not None else self.make_vocabulary()

    def make_vocabulary(self) -> dict[str, Any] | None:
        """The vocabulary from the data."""
        return None

    @property
    @abstractmethod
    def about_data(self) -> str:
        """A few words on what is trained on."""

    @property
    def called(self) -> str:
        """What the model is called in tables."""
        model = self.settings.model
        sizes = getattr(model, "hidden_sizes", ()) or (model.hidden_size,)
        return "-".join([model.cell, *map(str, sizes)])

    @property
    def usual_length(self) -> int:
        """Steps of a sequence in training, roughly: engines are chosen by it."""
        return 128

    def about_model(self, model: M) -> str:
        """A few words on what is trained."""
        settings = self.settings.training
        about = f"{self.settings.model.cell} with {count_parameters(model):,} parameters"
        if isinstance(model, SequenceModel):
            engine = model.recurrent.explain(settings.batch_size, self.usual_length).engine.name
            about += f", truncation {settings.truncation}, engine {engine}"
        return about

    # -- model -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def make_model(self) -> M:
        """The model, untrained, on the CPU."""

    def find_cell(self, name: str) -> Cell:
        """The cell of that name: as the run folder keeps it, or from the catalogue or a file."""
        return self.cells[name] if name in self.cells else find_cell(name)

    def make_recurrent(self, input_size: int | None = None, **options: Any) -> Recurrent:
        """The recurrent layers that the settings describe; without an input size, for vectors of tokens."""
        model = self.settings.model
        names = ("layers", "dropout", "weight_dropout", "residual", "learn_initial", "bias", "bidirectional")
        described = {name: getattr(model, name) for name in names if hasattr(model, name)}
        sizes = list(getattr(model, "hidden_sizes", ()))
        size = input_size or model.embedding_size or (sizes[-1] if sizes else model.hidden_size)
        given: dict[str, Any] = {"cell": model.cell, "hidden_size": model.hidden_size, "engine": self.settings.engine}
        given |= described | ({"hidden_size": sizes, "layers": len(sizes)} if sizes else {}) | options
        return Recurrent(**given | {"cell": self.find_cell(given["cell"])}, input_size=size)

    def step_options(self) -> dict[str, Any]:
        """What models that predict at every step are told besides their recurrent layers."""
        return {name: getattr(self.settings.model, name) for name in ("input_dropout", "deep_input", "deep_output")}

    def untrained_model(self) -> M:
        """The model as it was before the first step of training, to be looked at."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            return self.make_model().to(self.settings.precision).eval()

    def trained(self, checkpoint: Checkpoint, about: str) -> M:
        """The model of a checkpoint: the averaged one, if there is one."""
        with belonging(f"{about}: vocabulary.json"):  # sizes of the model come from it
            model = self.make_model().to(self.settings.precision)
        check_weights(checkpoint.evaluated, f"{about}, the checkpoint of step {checkpoint.step},")
        restore_weights(model, checkpoint.evaluated, about)
        return model.eval()

    # -- training ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def make_trainer(self, model: M) -> Loop:
        """The model with its batches, its loss and its validation."""

    def batch_options(self, *, training: bool) -> dict[str, Any]:
        """What every kind of batches is told: how many rows, in which order, and which of them are this rank's."""
        size = self.settings.training.batch_size if training else self.evaluated_together
        share = {"rank": self.ranks.rank, "world": self.ranks.world}
        return {"batch_size": size, "seed": self.settings.seed, "shuffle": training, **share}

    def train_on(self, model: M, batches: Batches, validate: Callable[[Any], float], **options: Any) -> Trainer:
        """The trainer of a model; `options` as for `Trainer`."""
        bfloat16 = self.settings.dtype == "bfloat16"
        training = options.pop("training", self.settings.training)
        return Trainer(model, batches, training, validate, bfloat16=bfloat16, ranks=self.ranks, **options)

    def trainer(self) -> Loop:
        """Everything of a run that is not its folder. Every random number comes from the seed."""
        start = self.word_start if self.kept is None else None
        if start is not None:
            self.settings = override(self.settings, {"model.embedding_size": start.vectors.size})
        torch.manual_seed(self.settings.seed)
        device = f"cuda:{self.ranks.local_rank}" if self.settings.device == "cuda" else "cpu"
        model = self.make_model().to(device, self.settings.precision)
        if start is not None:
            word_vectors.give_vectors(model, self.word_tables(), start)
        if getattr(getattr(self.settings, "data", None), "freeze_embeddings", False):
            word_vectors.freeze(model, self.word_tables())
        return self.make_trainer(model)

    def word_tables(self) -> word_vectors.Tables:
        """The tables of vectors of words in the model; none, where it reads no words."""
        return {}

    @cached_property
    def word_start(self) -> word_vectors.Start | None:
        """The vectors that words start from, of a run that begins. The weights hold them: the file is not needed again."""
        return word_vectors.read_start(self.settings, self.word_tables())

    evaluate: Callable[..., Evaluation]
    """`evaluate(model, data=None, *, baselines=True)`: scores on held-out data, or on another file, beside baselines. A task of
    synthetic data takes no other file."""


class StepTask(Task[M]):
    """A task whose recurrent layers read one sequence step by step, so that they can be looked into."""

    def frozen_input(self, model: M, name: str) -> Tensor:
        """The vector of an input that is held: `zero`, or one of `input_vectors`."""
        if name == "zero":
            return torch.zeros(self._layers(model).input_size)
        known = self.input_names()
        if name not in known:
            names = ", ".join(map(repr, ["zero", *known][:40]))
            raise OptionError(f"input {name!r} does not exist. {self.settings.name} has: {names}.")
        with torch.no_grad():
            vector: Tensor = self._embed(model, known.index(name))
        return vector

    def input_names(self) -> list[str]:
        """Names of single inputs, in the order of their numbers; none where numbers are read."""
        return []

    def _layers(self, model: Any) -> Recurrent:
        layers: Recurrent = model.recurrent
        return layers

    def _embed(self, model: Any, number: int) -> Tensor:
        vector: Tensor = model.embed(torch.tensor([[number]], device=model.output.weight.device))[0, 0]
        return vector

    @torch.no_grad()
    def name_outputs(self, model: Any, hidden: Tensor) -> list[str]:
        """The most probable class at some outputs of the last layer."""
        names = self.output_names()
        best = model.output(hidden.to(model.output.weight.dtype))[:, : len(names)].argmax(-1).tolist()
        return [names[k] for k in best]

    def output_names(self) -> list[str]:
        """The classes that the model predicts, by number."""
        return []


def count_parameters(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def make_penalty(task: Any, model: Any) -> TreePenalty | None:
    """What the setting `training.tree` asks for, of a task that classifies steps."""
    strength = task.settings.training.tree
    return TreePenalty(strength, task.steps("train", MOST_STEPS), model, task.settings.seed) if strength else None
