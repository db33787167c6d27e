"""Where extra layers go in a recurrent network, compared at equal numbers of parameters. Pascanu et al. 2014."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from recurra.tasks.catalogue import begin, find_recipe
from recurra.tasks.language import LanguageTask
from recurra.tasks.settings import override

PLACES: dict[str, list[str]] = {
    "none: one layer": [],
    "input to hidden": ["model.deep_input=1"],
    "hidden to hidden": ["model.cell=deep_transition"],
    "hidden to output": ["model.deep_output=1"],
    "input, hidden and output": ["model.deep_input=1", "model.cell=deep_transition", "model.deep_output=1"],
    "stacked: two layers": ["model.layers=2"],
    "stacked, with residuals": ["model.layers=2", "model.residual=true"],
}
"""Presets of the place of depth, as settings of a language model whose cell is `elman`."""


@dataclass(frozen=True)
class Row:
    """One network: its place of depth, its size, and the nats per symbol that it reached."""

    place: str
    settings: list[str]
    hidden_size: int
    parameters: int
    valid: float
    seconds: float


def compare_depth(parameters: int, steps: int, path: str | None = None, seed: int = 0) -> Iterator[Row]:
    """Train a network for each place, all with about as many parameters, the same text and the same number of steps."""
    common = ["model.cell=elman", "model.dropout=0", f"training.steps={steps}", f"seed={seed}", "training.average=none"]
    common += [f"training.validate_every={steps}", "training.learning_rate=0.002", "training.l2=0"]
    common += [f"data.path={path}"] if path is not None else []
    vocabulary_size = _language(common).tokenizer.size
    for place, extra in PLACES.items():
        size = _size_for(parameters, [*common, *extra], vocabulary_size)
        settings = [*extra, *_units(size)]
        trainer = _language([*common, *settings]).trainer()
        began = time.monotonic()
        for _ in trainer.events():
            pass
        count = sum(each.numel() for each in trainer.model.parameters())
        yield Row(place, settings, size, count, trainer.best, time.monotonic() - began)


def _language(settings: list[str]) -> LanguageTask:
    made = begin(override(find_recipe("python-source"), settings))
    assert isinstance(made, LanguageTask)
    return made


def _units(size: int) -> list[str]:
    return [f"model.hidden_size={size}", f"model.embedding_size={size}"]


def _size_for(parameters: int, settings: list[str], vocabulary_size: int) -> int:
    """The number of units, a multiple of 4, with which a network comes nearest to so many parameters."""

    def count(size: int) -> int:
        model = _language([*settings, *_units(size)]).untrained(vocabulary_size)
        return sum(each.numel() for each in model.parameters())

    low, high = 1, 2
    while count(4 * high) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(4 * middle) < parameters else (low, middle)
    return min((4 * low, 4 * high), key=lambda size: abs(count(size) - parameters))
