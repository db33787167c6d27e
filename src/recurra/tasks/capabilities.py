"""What a task may be able to do beyond training and evaluation: small protocols, asked for by name.

A task has a capability by having its methods. Verbs of the command line and methods of `Run` ask `find(task, Generates)`, which
gives the task or raises one clear line; nothing asks what kind of task it is. The docstring of each completes
"… is for a task that …" in that line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from recurra.analysis.automata.reading import Reading
from recurra.analysis.beam import BeamTree
from recurra.analysis.embeddings import Embeddings
from recurra.analysis.order_tables import OrderComparison
from recurra.data.text import Document
from recurra.data.tokenizers import Tokenizer
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.models.sampling import Choice
from recurra.tasks.results import Comparison, Examples, Flags, Forecast, Predictions, TextScore, Translation
from recurra.tasks.streaming import Streaming
from recurra.training.tree_penalty import Steps
from recurra.types import Float


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


class Generates(Protocol):
    """writes text token by token"""

    tokenizer: Tokenizer

    def generate(
        self,
        model: Any,
        prime: list[int],
        length: int | None,
        *,
        given: str | None = None,
        choice: Choice = Choice(),
        stop_probability: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Iterator[int]:
        """Tokens that follow the prime; `length=None`: as many as drawn from the lengths of the training sequences."""


class ScoresText(Protocol):
    """gives a text a probability"""

    def score(self, model: Any, text: str, *, baselines: bool = True) -> TextScore: ...


class Predicts(Protocol):
    """predicts labels, or what follows in a case"""

    def predict(self, model: Any, data: str | None = None) -> Predictions: ...


class Compares(Protocol):
    """compares its network with baselines on validation data"""

    def compare(self, model: Any) -> Comparison | None:
        """None where validation data has nothing to compare on."""


class Translates(Protocol):
    """turns one sequence into another"""

    def translate(self, model: Any, texts: Sequence[str], **options: Any) -> list[Translation]: ...


class SearchesBeam(Protocol):
    """searches for its outputs with a beam"""

    def beam(self, model: Any, text: str, width: int, length_power: float) -> BeamTree: ...


class Forecasts(Protocol):
    """forecasts how a series goes on"""

    def forecast(self, model: Any, steps: int, data: str | None = None) -> Forecast: ...


class Streams(Protocol):
    """reads a stream step by step and predicts what follows"""

    def streaming(self, model: Any) -> Streaming: ...


class FlagsEvents(Protocol):
    """flags improbable events of a log"""

    def flag(self, model: Any, data: str | None = None, *, below: float | None, alarms: float) -> Flags: ...


class Probes(Protocol):
    """has recurrent layers that read one sequence step by step"""

    def probe(self, model: Any, steps: int) -> Probe:
        """Typical sequences of at least `steps` steps; the data of the run is not needed."""

    def frozen_input(self, model: Any, name: str) -> Tensor:
        """The vector of an input that is held: `zero`, or what the task has names for."""

    def name_outputs(self, model: Any, hidden: Float[Tensor, "N H"]) -> list[str]:
        """What the model predicts at some outputs of its last layer, in a word each: names for attractors."""


class HasTriggers(Protocol):
    """works as a state machine that triggers move"""

    def triggers(self, model: Any) -> Triggers | None: ...

    def name_states(self, model: Any, hidden: Float[Tensor, "N H"], after: list[list[int]]) -> list[str]:
        """Names for the states of an automaton that was found, by the outputs and by the transitions between them."""


class ReadsTokens(Protocol):
    """reads tokens one by one and predicts a class after each"""

    def reading(self, model: Any) -> Reading: ...


class ClassifiesSteps(Protocol):
    """predicts a class at each step, so that a decision tree can mimic it"""

    def steps(self, part: str, most: int | None = None) -> Steps:
        """Steps of the `train`, `valid` or `test` part as a decision tree reads them; at most so many, in whole sequences."""


class ReadsText(Protocol):
    """is a language model, whose units are shown over text"""

    tokenizer: Tokenizer

    @property
    def held_out(self) -> list[Document]:
        """The documents, or lines, that the model never saw."""

    def tokens_of(self, text: str) -> list[int]:
        """A text as the model reads it, with its start and end."""

    @property
    def token_names(self) -> list[str]: ...


class ComparesOrders(Protocol):
    """is a language model, which tables of order k are compared with"""

    def compare_orders(self, model: Any, most: int) -> OrderComparison: ...


class HasEmbeddings(Protocol):
    """reads tokens, each of which has a vector"""

    def embeddings(self, model: Any) -> Embeddings: ...


class Glimpses(Protocol):
    """shows a few words of what the model outputs while it learns"""

    def glimpse(self, model: Any) -> str | None: ...


class HasExamples(Protocol):
    """shows what the model outputs for a few inputs that it never saw"""

    def examples(self, model: Any) -> Examples | None: ...


class DividesSpace(Protocol):
    """is a feed-forward network whose linear regions can be counted"""

    def window(self) -> tuple[Sequence[float], Sequence[float]]:
        """The smallest and the largest value of each input, with a tenth of room around."""

    def region_labels(self) -> dict[str, Any]:
        """Names of classes and columns, and some held-out points with their labels, for a picture."""


C = TypeVar("C")


def offers(offered: Any, capability: type[Any]) -> bool:
    """Whether a task has every member of a protocol; no property is run, since it may read data."""
    members = {*vars(capability), *capability.__annotations__}
    return all(getattr_static(offered, name, None) is not None for name in members if not name.startswith("_"))


def find(task: Any, capability: type[C], asked: str) -> C:
    """The task as one with this capability; otherwise an error that says what was asked for."""
    if offers(task, capability):
        return cast(C, task)
    raise OptionError(
        f"{asked} is for a task that {capability.__doc__}; {task.settings.name} is not one. "
        f"It can: {', '.join(verbs_of(task))}."
    )


VERBS: dict[str, type[Any]] = {
    "predict": Predicts,
    "sample": Generates,
    "score": ScoresText,
    "translate": Translates,
    "forecast": Forecasts,
    "flag": FlagsEvents,
    "units": ReadsText,
    "embeddings": HasEmbeddings,
    "orders": ComparesOrders,
    "automaton": ReadsTokens,
    "mimic": ClassifiesSteps,
    "regions": DividesSpace,
}
"""The verb of the command line, and method of `Run`, that asks for each capability."""


def verbs_of(task: Any) -> list[str]:
    """What can be done with a run of a task."""
    return [
        "evaluate",
        *(verb for verb, capability in VERBS.items() if offers(task, capability) and verb not in task.lacks),
    ]
