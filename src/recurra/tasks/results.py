"""What tasks give back: scores beside baselines, predictions, forecasts, samples, translations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from recurra.analysis.attention import Attention
from recurra.errors import OptionError
from recurra.metrics.confusion import Confusion
from recurra.metrics.forecast import Forecast
from recurra.results import Result, Table, to_plain
from recurra.types import Float


@dataclass(frozen=True)
class Evaluation(Result):
    """Scores by model, each a row of named numbers.

    - `data`: what was evaluated on. `count`: how many predictions the scores are the mean of; `unit`: what is counted.
    - `confusion`: where there are classes, how often each was predicted as each.
    - `forecast`: one of the forecasts, with what came true.
    """

    data: str
    count: int
    scores: dict[str, dict[str, float]]
    unit: str = ""
    confusion: Confusion | None = None
    forecast: Forecast | None = None

    def table(self) -> Table:
        columns = list(dict.fromkeys(column for row in self.scores.values() for column in row))
        rows = [
            [name, *(f"{row[column]:.4f}" if column in row else "" for column in columns)]
            for name, row in self.scores.items()
        ]
        return Table(["model", *columns], rows, f"{self.data}: {self.count:,} {self.unit}")

    def to_json(self) -> dict[str, Any]:
        found = {"data": self.data, "tokens": self.count, "scores": to_plain(self.scores)}
        if self.confusion is not None:
            found["confusion"] = self.confusion.to_json()
        return found

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """The confusion of classes, or a forecast and what came true; other scores have no picture."""
        if self.forecast is not None:
            return self.forecast.plot(file, **{"title": f"one forecast of the {self.data}"} | options)
        if self.confusion is None:
            raise OptionError(
                "an evaluation is drawn where there are classes or a forecast; these scores have neither."
            )
        return self.confusion.plot(file, **options)


@dataclass(frozen=True)
class Comparison(Result):
    """The network beside its baselines on validation data, by one metric.

    - `network`: what it reaches alone. `combined`: together with a baseline, where the model is combined with one.
    - `higher`: whether more is better. `advice`: what to try where a baseline is better.
    - `called`: what `network` is, in words. `note`: what else there is to say.
    """

    metric: str
    higher: bool
    network: float
    baselines: dict[str, float]
    advice: str
    combined: float | None = None
    called: str = "the network alone"
    note: str = ""

    @property
    def lost_to(self) -> str | None:
        """The best baseline, where it is better than the network alone."""
        if not self.baselines:
            return None
        sign = 1 if self.higher else -1
        best = max(self.baselines, key=lambda name: sign * self.baselines[name])
        return best if sign * self.baselines[best] > sign * self.network else None

    def __str__(self) -> str:
        beside = ", ".join(f"{name} {value:.4f}" for name, value in self.baselines.items())
        text = f"validation, {self.metric}: {self.called} {self.network:.4f}, {beside}"
        if self.combined is not None:
            text += f", combined {self.combined:.4f}"
        if self.note:
            text += f". {self.note}"
        if self.lost_to is None:
            return text
        kept = "; the run does not predict with it alone" if self.combined is not None else ""
        return f"{text.removesuffix('.')}. {self.called.capitalize()} loses to {self.lost_to}{kept}. {self.advice}"


@dataclass(frozen=True)
class Predictions(Result):
    """What a model predicts for each sequence or case, a dictionary each, in the order in which they were given."""

    rows: Sequence[dict[str, Any]]

    def table(self) -> Table:
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        return Table(columns, [[_readable(row.get(column)) for column in columns] for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        return {"predictions": to_plain(list(self.rows))}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.rows[place]

    def lines(self) -> list[str]:
        """A line for each: its label with the probability, its tags, or what follows in its case and when."""
        return ["\t".join(_fields(row)) for row in self.rows]


def _fields(row: dict[str, Any]) -> list[str]:
    if "tags" in row:
        return [" ".join(row["tags"])]
    if "label" in row:
        return [row["label"], f"{row['probability']:.4f}"]
    chances = ", ".join(f"{name} {chance:.4f}" for name, chance in row["probabilities"].items())
    wait = [] if row["seconds"] is None else [f"in {row['seconds'] / 3600:.1f} h"]
    return [
        row["case"],
        chances,
        *wait,
        *(f"{name} {value or '(empty)'}" for name, value in row["attributes"].items()),
    ]


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_readable(each)}".strip() for name, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_readable, value))
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Flag:
    """An event that the model finds improbable; `number` counts from 1 in its case."""

    case: str
    number: int
    activity: str
    probability: float
    expected: str


@dataclass(frozen=True)
class Flags(Result):
    """Events less probable than `below`, the least probable first."""

    below: float
    flags: list[Flag]
    shown: int = 50

    def table(self) -> Table:
        rows = [
            [f.case, str(f.number), f.activity, f"{f.probability:.2g}", f.expected] for f in self.flags[: self.shown]
        ]
        more = f", {self.shown} shown" if len(self.flags) > self.shown else ""
        title = f"{len(self.flags)} events with a probability below {self.below:.2g}{more}"
        return Table(["case", "event", "activity", "probability", "expected"], rows, title)

    def to_json(self) -> dict[str, Any]:
        return {"below": self.below, "flags": to_plain(self.flags)}


@dataclass(frozen=True)
class Sample(Result):
    """A text that a model wrote after `prime`."""

    prime: str
    text: str

    def __str__(self) -> str:
        return self.prime + self.text


@dataclass(frozen=True, eq=False)
class TextScore(Result):
    """A text, token by token, and the log-probability that each model gives to each, given those before it."""

    factorisation: str
    tokens: list[str]
    logs: dict[str, Float[Tensor, " N"]]

    def table(self) -> Table:
        rows = []
        for name, logs in self.logs.items():
            nats = -float(logs.mean())
            rows.append([name, f"{float(logs.sum()):.4f}", f"{nats:.4f}", f"{math.exp(min(nats, 700)):.4f}"])
        return Table(["model", "log P", "nats per token", "perplexity"], rows, f"{len(self.tokens)} tokens")

    def by_token(self) -> Table:
        """P of each token, given those before it."""
        columns = [[f"{math.exp(value):.4f}" for value in logs.tolist()] for logs in self.logs.values()]
        rows = list(zip(map(repr, self.tokens), *columns, strict=True))
        return Table(["token", *self.logs], rows, "P of each token, given those before it")

    def to_json(self) -> dict[str, Any]:
        return {
            "factorisation": self.factorisation,
            "tokens": self.tokens,
            "log_probabilities": to_plain(self.logs),
        }


@dataclass(frozen=True, eq=False)
class Translation(Result):
    """The translations of a text, best first, each with `text`, `log_probability` and `score`.

    - `attention`: what each token of the best one, and its end, attended to; `None` in models without attention.
    """

    source: str
    translations: list[dict[str, Any]]
    attention: Attention | None = None

    @property
    def text(self) -> str:
        return str(self.translations[0]["text"])

    def __str__(self) -> str:
        if len(self.translations) == 1:
            return self.text
        return "\n".join(f"{one['score']:.4f}\t{one['text']}" for one in self.translations)

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "translations": to_plain(self.translations)}

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """The map of attention."""
        if self.attention is None:
            raise OptionError("this model has no attention to draw: train with model.context=attention.")
        return self.attention.plot(file, **options)


@dataclass(frozen=True)
class Examples(Result):
    """What a model writes, or predicts for a few inputs that it never saw: rows of text under their columns.

    - `command`: what comes after `recurra` to see more of them; the run's folder stands as RUN.
    - `lines`: where they are a series, by name, steps and values to draw.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    command: str
    lines: dict[str, tuple[list[float], list[float]]] | None = field(default=None, repr=False)

    def table(self) -> Table:
        return Table(self.columns, self.rows)


__all__ = [
    "SHOWN",
    "Comparison",
    "Evaluation",
    "Examples",
    "Flag",
    "Flags",
    "Forecast",
    "Predictions",
    "Sample",
    "TextScore",
    "Translation",
    "forecast_examples",
]

SHOWN = 8
"""How many examples are shown."""


def forecast_examples(ahead: Forecast) -> Examples:
    """The first column of a forecast, beside as much of what was known."""
    name, steps = ahead.names[0], len(ahead.predictions)
    past, values = ahead.known[-steps:, 0].tolist(), ahead.predictions[:, 0].tolist()
    lines = {
        f"{name}, known": ([float(k) for k in range(1 - len(past), 1)], past),
        f"{name}, forecast": ([float(k) for k in range(1, steps + 1)], values),
    }
    rows = [(str(k + 1), f"{value:.6g}") for k, value in enumerate(values[:SHOWN])]
    return Examples(("steps ahead", name), rows, f"forecast RUN --steps {steps}", lines)
