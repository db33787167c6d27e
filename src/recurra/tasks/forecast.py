"""Forecasts of numeric series: the settings, and how they become data, a model, a backtest and what comes next."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recurra.data.series import Scaling, Series, read_timed_series
from recurra.data.series_tasks import TO_FORECAST
from recurra.data.windows import Windows
from recurra.errors import DataError, OptionError, choose_from
from recurra.metrics.forecast import Forecast
from recurra.models.autoregression import Autoregression, best_autoregression, find_season
from recurra.models.forecast import Forecaster
from recurra.models.heads import HEADS
from recurra.tasks.task import (
    Evaluation,
    Examples,
    Probe,
    Question,
    Recipe,
    Settings,
    StepModel,
    Task,
    check_shares,
    forecast_examples,
    unused,
    unused_data,
)
from recurra.training.backtest import Rolling, draw_noise, interval, judge_paths, roll
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.types import Float, setting

BINARY = ("bernoulli", "chain")
"""Heads that say 0 or 1."""
LEAST = 10
"""Steps to learn from; fewer say nothing."""
EVALUATED = 64
"""How many pieces are judged at a time; what is found does not depend on it."""


@dataclass(frozen=True)
class ForecastData:
    path: str | None = setting(None, "a CSV file with a row for each step, evenly spaced; none: data.task")
    columns: tuple[str, ...] = setting((), "the columns to forecast, by name; none: all but that of times")
    time: str | None = setting(None, "the column of times; none: guessed by its name, and not needed")
    task: str = setting("seasons", "a series that is made up: seasons, mackey-glass, lorenz or sines")
    length: int = setting(3000, "steps of a series that is made up")
    difference: int = setting(0, "the network sees the change from so many steps before: 1, or a season; 0: values")
    log: bool = setting(False, "the network sees logarithms: for values that are positive and grow by shares")
    window: int = setting(168, "steps of a piece to learn from; so many known steps are read before a forecast")
    valid: float = setting(0.15, "the share of the series, after the training part, that chooses the model")
    test: float = setting(0.15, "the share at its end that is kept for the backtest")

    def check(self) -> None:
        choose_from("data.task", self.task, TO_FORECAST)
        for name in ("length", "window"):
            if getattr(self, name) < 1:
                raise OptionError(f"data.{name} must be at least 1; got {getattr(self, name)}.")
        if self.difference < 0:
            raise OptionError(f"data.difference must not be negative; got {self.difference}.")
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class ForecastModel(StepModel):
    head: str = setting("gaussian", "what is said of the next step: gaussian, mixture, quantiles, bernoulli or chain")
    components: int = setting(5, "of a mixture")
    change: bool = setting(True, "it is said as a change from the last value; false: as a value")
    skip: bool = setting(False, "it is also a linear function of the values read, past the recurrent layers")

    def check(self) -> None:
        super().check()
        choose_from("model.head", self.head, HEADS)
        if self.tied or self.embedding_size is not None:
            raise OptionError(
                "model.embedding_size and model.tied are for symbols; a series is numbers. Leave them out."
            )
        if self.change and self.head in BINARY:
            raise OptionError(f"model.head={self.head} says 0 or 1, not a change. Add model.change=false.")


@dataclass(frozen=True)
class BacktestSettings:
    horizon: int = setting(24, "steps of a forecast")
    origins: int = setting(50, "from how many places of the test part forecasts are made")
    samples: int = setting(200, "how many trajectories are drawn from each")
    interval: float = setting(0.9, "the share of them that the interval holds")
    season: int | None = setting(None, "steps of a season, for the seasonal baseline; none: found in the training part")

    def check(self) -> None:
        for name, least in (("horizon", 1), ("origins", 1), ("samples", 2), ("season", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"backtest.{name} must be at least {least}; got {value}.")
        if not 0 < self.interval < 1:
            raise OptionError(f"backtest.interval must lie between 0 and 1; got {self.interval}.")


@dataclass(frozen=True)
class ForecastSettings(Settings):
    data: ForecastData = field(default_factory=ForecastData)
    model: ForecastModel = field(default_factory=ForecastModel)
    backtest: BacktestSettings = field(default_factory=BacktestSettings)

    def check(self) -> None:
        super().check()
        check_pieces(self.training)
        if self.model.head in BINARY and (self.data.log or self.data.difference):
            raise OptionError(
                f"model.head={self.model.head} says 0 or 1: data.log and data.difference are for numbers."
            )

    def unused(self) -> dict[str, str]:
        found = super().unused() | unused_data(self.data.path, ("columns", "time"), ("task", "length"))
        return found | unused_components(self.model)


def unused_components(model: ForecastModel) -> dict[str, str]:
    return unused(
        "model", () if model.head == "mixture" else ("components",), f"it is of a mixture, and model.head={model.head}"
    )


def check_pieces(training: Training) -> None:
    """Refuse what is for lanes of one long text."""
    if training.truncation.startswith("window"):
        raise OptionError("training.truncation=window:K is for lanes of long text; use none or every:K for pieces.")


class ForecastTask(Task[Forecaster]):
    """What all forecasters share: how they are made and trained on pieces."""

    unit = "step"
    verbs = ("evaluate", "forecast")
    factorisation = (
        "A product of conditionals: p(y1 … yT) = Π p(yt | y1 … yt−1). What is drawn at one step is fed back as the next "
        "input, so outputs depend on one another."
    )

    @abstractmethod
    def forecast(self, model: Forecaster, steps: int, path: str | None = None) -> Forecast:
        """What follows the run's data, or that of another file."""

    def untrained(self, channels: int, *, gaps: bool = False) -> Forecaster:
        model = self.settings.model
        return Forecaster(
            channels,
            model.cell,
            model.hidden_size,
            head=model.head,
            components=model.components,
            change=model.change,
            skip=model.skip,
            gaps=gaps,
            **self.model_options(),
        )

    def teach(self, model: Forecaster, train: Windows, valid: Windows) -> Trainer:
        return Trainer(
            model,
            train,
            self.settings.training,
            lambda judged: evaluate(judged, valid, judged.loss, self.ranks).mean,
            loss=model.loss,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def how(self, *, training: bool) -> dict[str, Any]:
        """What every batches of pieces is told."""
        share = {"rank": self.ranks.rank, "world": self.ranks.world}
        size = self.settings.training.batch_size if training else EVALUATED
        return {"batch_size": size, "seed": self.settings.seed, "shuffle": training, **share}


@dataclass(frozen=True, eq=False)
class Parts:
    """A series, and where validation and test begin."""

    series: Series
    valid: int
    test: int

    @property
    def learned(self) -> Series:
        return replace(self.series, values=self.series.values[: self.valid])


@dataclass(frozen=True, eq=False)
class Scaled:
    """A forecaster of scaled values, or of changes, as one of values."""

    model: Forecaster
    scaling: Scaling

    def run_free(self, known: Float[Tensor, "B T C"], noise: Float[Tensor, "S K C"]) -> Float[Tensor, "B S K C"]:
        return self.scaling.restore(self.model.run_free(self.scaling.shrink(known), noise), known)


class SeriesTask(ForecastTask):
    """A series from a file, or one that is made up. With the vocabulary of a run folder, other series can be forecast."""

    def __init__(self, recipe: ForecastSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(recipe, ranks)
        self._kept = vocabulary

    @property
    def about(self) -> str:
        return str(self.settings.data.path or self.settings.data.task)

    @cached_property
    def parts(self) -> Parts:
        data, horizon = self.settings.data, self.settings.backtest.horizon
        if data.path is not None:
            series = read_timed_series(data.path, data.columns, data.time)
        else:
            values = TO_FORECAST[data.task](data.length, self.settings.seed)
            series = Series((data.task,) if values.shape[1] == 1 else ("x", "y", "z"), values)
        T = len(series.values)
        test = T - int(T * data.test)
        valid = test - int(T * data.valid)
        judged, size = ("for the test", T - test) if data.test else ("for validation", test - valid)
        if size < horizon:
            raise DataError(
                f"{self.about}: {T:,} steps leave {size:,} {judged}, fewer than the horizon of {horizon:,} "
                "(backtest.horizon). Give a longer series, a shorter horizon, or other shares (data.valid, data.test)."
            )
        least = LEAST + data.difference
        if valid < least or test == valid:
            raise DataError(
                f"{self.about}: {T:,} steps leave {valid:,} to learn from and {test - valid:,} for validation, where "
                f"{least} and 1 are the least. Give a longer series, or other shares (data.valid, data.test)."
            )
        return Parts(series, valid, test)

    @cached_property
    def scaling(self) -> Scaling:
        data = self.settings.data
        if self._kept is not None:
            return Scaling(tuple(self._kept["mean"]), tuple(self._kept["scale"]), data.log, data.difference)
        series = self.parts.learned
        if not self.binary:
            return Scaling.fit(series, self.about, log=data.log, lag=data.difference)
        self.check_binary(self.parts.series.values, self.about)
        return Scaling((0.0,) * len(series.names), (1.0,) * len(series.names))

    @property
    def binary(self) -> bool:
        return self.settings.model.head in BINARY

    def check_binary(self, values: Tensor, about: str) -> None:
        if self.binary and not bool(((values == 0) | (values == 1) | values.isnan()).all()):
            raise DataError(
                f"{about} has values that are neither 0 nor 1, which is all that model.head={self.settings.model.head} says. "
                "Use gaussian, mixture or quantiles."
            )

    @cached_property
    def vocabulary(self) -> dict[str, Any]:
        """The columns, how their values are scaled, how many steps a forecast reads, and the season."""
        if self._kept is not None:
            return self._kept
        series, scaling = self.parts.learned, self.scaling
        return {
            "columns": list(series.names),
            "mean": list(scaling.mean),
            "scale": list(scaling.scale),
            "deviation": [float(column[~column.isnan()].std()) for column in series.values.T],
            "gaps": bool(series.values.isnan().any()),
            "window": min(self.settings.data.window, len(series.values) - scaling.lag - 1),
            "season": self.settings.backtest.season or find_season(series.values),
        }

    @property
    def about_data(self) -> str:
        parts, kept = self.parts, self.vocabulary
        T = len(parts.series.values)
        names = ", ".join(kept["columns"])
        times = f" by {parts.series.clock.name}" if parts.series.clock is not None else ""
        gaps = ", some values missing" if kept["gaps"] else ""
        season = f", a season of {kept['season']}" if kept["season"] else ", no season"
        return f"{self.about}: {names}{times}, {parts.valid:,} of {T:,} steps to learn from{gaps}{season}"

    def make_model(self) -> Forecaster:
        return self.untrained(len(self.vocabulary["columns"]), gaps=self.vocabulary["gaps"])

    def make_trainer(self, model: Forecaster) -> Trainer:
        parts, window = self.parts, self.vocabulary["window"]
        learned = self.scaling.shrink(parts.learned.values).to(self.settings.precision)
        starts = torch.arange(len(learned) - window)
        train = Windows(learned, starts, torch.full_like(starts, window), **self.how(training=True))
        return self.teach(model, train, self._held_out(parts.series.values[: parts.test], parts.valid))

    def _held_out(self, values: Float[Tensor, "T C"], begin: int) -> Windows:
        """Every step from `begin` on counts once, after at least half a window of steps that are only read."""
        values, begin = self.scaling.shrink(values).to(self.settings.precision), begin - self.scaling.lag
        window = self.vocabulary["window"]
        skip = min(window // 2, begin - 1)
        starts = torch.arange(begin - 1 - skip, len(values) - 1 - skip, window - skip)
        lengths = (len(values) - 1 - starts).clamp(max=window)
        return Windows(values, starts, lengths, skip=skip, **self.how(training=False))

    def evaluate(self, model: Forecaster, question: Question) -> Evaluation:
        if question.window is not None or question.dynamic is not None:
            raise OptionError("--window and --dynamic are for language models.")
        parts, kept = self.parts if question.data is None or question.baselines else None, self.vocabulary
        if question.data is not None:
            series, begin, name = self.read_other(question.data), self.reads, question.data
        else:
            assert parts is not None
            has_test = parts.test < len(parts.series.values)
            series = parts.series if has_test else replace(parts.series, values=parts.series.values[: parts.test])
            begin, name = (parts.test, "test") if has_test else (parts.valid, "validation")
        rolling = self._roll(series.values, begin)
        rivals: dict[str, Any] = {self.called: Scaled(model, self.scaling)}
        if question.baselines:
            assert parts is not None
            rivals |= self._baselines(parts)
        found = {called: rolling.forecast(each) for called, each in rivals.items()}
        plain = len(kept["columns"]) == 1 or self.binary
        size = torch.tensor([1.0] if plain else kept["deviation"], dtype=torch.float64)
        level = self.settings.backtest.interval
        scores = {called: judge_paths(paths / size, rolling.true / size, level) for called, paths in found.items()}
        if model.head.unit == "nats":
            scores[self.called]["nats"] = evaluate(model, self._held_out(series.values, begin), model.loss).mean
        unit = "" if plain else ", in standard deviations"
        said = f"{name}, {len(rolling.origins)} origins, {rolling.horizon} steps ahead{unit}"
        return Evaluation(
            said, rolling.true.numel(), scores, outlook=self._look_back(series, rolling, found[self.called])
        )

    @property
    def reads(self) -> int:
        """How many known steps a forecast reads."""
        return int(self.vocabulary["window"]) + self.scaling.lag

    def _roll(self, values: Float[Tensor, "T C"], begin: int) -> Rolling:
        settings = self.settings.backtest
        return roll(
            values,
            begin,
            horizon=settings.horizon,
            window=self.reads,
            origins=settings.origins,
            samples=settings.samples,
            seed=self.settings.seed,
        )

    def _baselines(self, parts: Parts) -> dict[str, Autoregression]:
        learned, season = parts.learned.values, self.vocabulary["season"]
        auto = best_autoregression(learned, parts.series.values[parts.valid : parts.test], season, most=self.reads)
        found = {"naive": Autoregression.repeat(learned)}
        if season is not None and season <= self.reads:
            found[f"seasonal naive, {season}"] = Autoregression.repeat(learned, season)
        return found | {f"autoregression of order {auto.order}": auto}

    def _look_back(self, series: Series, rolling: Rolling, paths: Float[Tensor, "O S K C"]) -> Forecast:
        """The forecast from the origin in the middle, with what came true."""
        k = len(rolling.origins) // 2
        origin = int(rolling.origins[k])
        seen = self._summed_up(series.values[: origin + 1], paths[k])
        return replace(seen, true=series.values[origin + 1 : origin + 1 + rolling.horizon])

    def _summed_up(self, known: Float[Tensor, "T C"], paths: Float[Tensor, "S K C"]) -> Forecast:
        """Draws as their median (of 0 and 1: their mean) and the interval around it."""
        names = tuple(self.vocabulary["columns"])
        if self.binary:
            return Forecast(names, known, paths.mean(0))
        level = self.settings.backtest.interval
        low, high = (each[0] for each in interval(paths[None], level))
        return Forecast(names, known, paths.median(0).values, low, high, level)

    def read_other(self, path: str) -> Series:
        """Another file with the columns that were learned, whatever else it has."""
        series = read_timed_series(path, self.vocabulary["columns"], self.settings.data.time)
        self.check_binary(series.values, path)
        return series

    def forecast(self, model: Forecaster, steps: int, path: str | None = None) -> Forecast:
        """What follows the run's series, or that of another file."""
        series = self.parts.series if path is None else self.read_other(path)
        values, least = series.values[-self.reads :], 2 + self.scaling.lag
        if len(values) < least:
            raise DataError(f"{path or self.about}: {len(values)} steps are known. Give at least {least}.")
        noise = draw_noise(self.settings.backtest.samples, steps, values.shape[1], self.settings.seed)
        paths = Scaled(model, self.scaling).run_free(values[None], noise)[0]
        times = () if series.clock is None else tuple(series.clock.after(steps))
        return replace(self._summed_up(series.values, paths), times=times)

    def examples(self, model: Forecaster) -> Examples:
        return forecast_examples(self.forecast(model, 2 * self.settings.backtest.horizon))

    def probe(self, model: Forecaster, steps: int) -> Probe:
        """Windows of the training part."""
        values = self.scaling.shrink(self.parts.learned.values).to(model.output.weight)
        rows = max(1, min(8, len(values) // steps))
        x = torch.cat([values] * -(-steps // len(values)))[: rows * steps].unflatten(0, (rows, steps))
        with torch.no_grad():
            return Probe(model.recurrent, model.embed(x))


RECIPES: dict[str, Recipe] = {
    "forecast": Recipe(
        ForecastSettings(
            name="forecast",
            model=ForecastModel(cell="gru", hidden_size=64),
            training=Training(
                steps=300,
                batch_size=32,
                truncation="none",
                learning_rate=5e-3,
                average="ema:0.99",
                validate_every=50,
                save_every=250,
            ),
        ),
        "how a series of numbers goes on, with intervals, beside three baselines: data.path=FILE.csv",
    ),
}
