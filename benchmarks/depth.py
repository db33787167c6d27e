"""Where extra layers go in a recurrent network, compared at equal numbers of parameters. Pascanu et al. 2014."""

from __future__ import annotations

import time
from dataclasses import dataclass

from recurra.benchmarks.timing import Say, quiet
from recurra.results import Result, Table
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.language import LanguageTask

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
    """One network: its place of depth, its size, and the cross-entropy on validation text (nats per token)."""

    place: str
    settings: list[str]
    hidden_size: int
    parameters: int
    valid: float
    seconds: float


@dataclass(frozen=True)
class DepthComparison(Result):
    """All places of depth at one number of parameters."""

    parameters: int
    steps: int
    seed: int
    rows: tuple[Row, ...]

    def table(self) -> Table:
        return Table(
            ["extra layers", "units", "parameters", "nats", "seconds"],
            [
                [r.place, str(r.hidden_size), f"{r.parameters:,}", f"{r.valid:.4f}", f"{r.seconds:.0f}"]
                for r in self.rows
            ],
            f"depth at about {self.parameters:,} parameters, {self.steps} steps",
        )


def compare_depth(
    parameters: int, steps: int, path: str | None = None, seed: int = 0, say: Say = quiet
) -> DepthComparison:
    """Train a network for each place, all with about as many parameters, the same text and the same number of steps."""
    common = ["model.cell=elman", "model.dropout=0", f"training.steps={steps}", f"seed={seed}", "training.average=none"]
    common += [f"training.validate_every={steps}", "training.learning_rate=0.002", "training.l2=0"]
    common += [f"data.path={path}"] if path is not None else []
    vocabulary_size = _language(common).tokenizer.size
    rows = []
    for place, extra in PLACES.items():
        size = _size_for(parameters, [*common, *extra], vocabulary_size)
        settings = [*extra, *_units(size)]
        trainer = _language([*common, *settings]).trainer()
        began = time.monotonic()
        for _ in trainer.events():
            pass
        count = sum(each.numel() for each in trainer.model.parameters())
        rows.append(Row(place, settings, size, count, trainer.best, time.monotonic() - began))
        say(f"{place}: {trainer.best:.4f} after {rows[-1].seconds:.0f} s")
    return DepthComparison(parameters, steps, seed, tuple(rows))


def _language(settings: list[str]) -> LanguageTask:
    made = find_recipe("python-source").configure(settings)
    assert isinstance(made, LanguageTask)
    return made


def _units(size: int) -> list[str]:
    return [f"model.hidden_size={size}", f"model.embedding_size={size}"]


def _size_for(parameters: int, settings: list[str], vocabulary_size: int) -> int:
    """The number of units, a multiple of 4, with which a network comes nearest to so many parameters."""

    def count(size: int) -> int:
        model = _language([*settings, *_units(size)]).model_for(vocabulary_size)
        return sum(each.numel() for each in model.parameters())

    low, high = 1, 2
    while count(4 * high) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(4 * middle) < parameters else (low, middle)
    return min((4 * low, 4 * high), key=lambda size: abs(count(size) - parameters))
