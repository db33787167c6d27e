"""Forecasts of numeric series: the settings, and how they become data, a model, a backtest and what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.data.series import Scaling, Series, read_timed_series
from recurra.data.series_tasks import TO_FORECAST
from recurra.data.windows import Windows
from recurra.errors import DataError, OptionError
from recurra.models.autoregression import Autoregression, LinearPast, baselines_of, find_season, kind_of
from recurra.models.combined import COMBINE
from recurra.models.forecast import Forecaster
from recurra.models.heads import HEADS
from recurra.tasks.capabilities import Probe
from recurra.tasks.recipe import Derived, recipe
from recurra.tasks.results import Comparison, Evaluation, Examples, Forecast, forecast_examples
from recurra.tasks.settings import override
from recurra.tasks.streaming import Answer, Streaming, marginals, read_steps
from recurra.tasks.task import (
    Settings,
    StepModelSettings,
    StepTask,
    check_shares,
    of_files,
    of_synthetic,
)
from recurra.training.backtest import Rolling, RunsFree, draw_noise, interval, roll, score_paths, standard_error
from recurra.training.evaluation import evaluate
from recurra.training.loop import Trainer, Training
from recurra.types import MOST, Float, setting

BINARY = ("bernoulli", "chain")
"""Heads that predict 0 or 1."""
LEAST = 10
"""Steps to learn from; fewer mean nothing."""
DRAWN = 100
"""Trajectories from each origin, by whose median baselines are compared."""
ALIKE = 1.25
"""How many times the smallest error a baseline may have to be part of a mean. One forecast that is far off makes the standard
error so large that nothing is surely worse."""
ORIGINS = 24
"""Places of the validation part from which baselines and shares are chosen."""
LONG, GAIN = 1000, 0.1
"""Steps to learn from that are worth more training, and how much smaller an error must be for logarithms to be read."""
LEFT_OUT = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the network's own part to choose from."""


def _of_tokens(settings: Any) -> str:
    return "it is for tokens, and a series is numbers"


@dataclass(frozen=True)
class ForecastData:
    path: str | None = setting(None, "a CSV file with a row for each step; none: data.task")
    columns: tuple[str, ...] = setting(
        (), "the columns to forecast, by name; none: all with numbers, but that of times", idle=of_files
    )
    time: str | None = setting(
        None, "the column of times; none: found by its name or by what it holds; not needed", idle=of_files
    )
    task: str = setting(
        "seasons", "a synthetic series: seasons, mackey-glass, lorenz or sines", choices=TO_FORECAST, idle=of_synthetic
    )
    length: int = setting(3000, "steps of a synthetic series", low=1, most=MOST, idle=of_synthetic)
    difference: int = setting(
        0, "the network reads the change from so many steps before: 1, or a season; 0: values", low=0
    )
    log: bool = setting(False, "the network reads logarithms: for values that are positive and grow by shares")
    window: int = setting(
        168, "steps of a window to learn from; so many known steps are read before a forecast", low=1, most=MOST
    )
    valid: float = setting(0.15, "the share of the series, after the training part, that chooses the model")
    test: float = setting(0.15, "the share at its end that is kept for the backtest")

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class ForecastModelSettings(StepModelSettings):
    embedding_size: int | None = setting(None, "size of a token's vector", low=1, most=MOST, idle=_of_tokens)
    tied: bool = setting(False, "the softmax uses the embedding's matrix", idle=_of_tokens)
    head: str = setting(
        "gaussian", "the distribution of the next step: gaussian, mixture, quantiles, bernoulli or chain", choices=HEADS
    )
    components: int = setting(
        5,
        "of a mixture",
        idle=lambda s: None if s.model.head == "mixture" else f"it is of a mixture, and model.head={s.model.head}",
    )
    change: bool = setting(True, "the prediction is a change from the last value; false: a value")
    skip: bool = setting(False, "it is also a linear function of the values read, past the recurrent layers")
    combine: str = setting(
        "none",
        "what the network predicts: none (the whole), baseline (what the best linear baseline leaves), auto (that, where "
        "model.change=true; the baseline alone where validation is not sure of the network)",
        choices=COMBINE,
        added=True,
        idle=lambda s: (
            f"model.head={s.model.head} predicts 0 or 1"
            if s.model.head in BINARY and s.model.combine != "none"
            else None
        ),
    )

    def check(self) -> None:
        if self.change and self.head in BINARY:
            raise OptionError(f"model.head={self.head} predicts 0 or 1, not a change. Add model.change=false.")


@dataclass(frozen=True)
class BacktestSettings:
    horizon: int = setting(24, "steps of a forecast", low=1, most=MOST)
    origins: int = setting(50, "from how many places of the test part forecasts are made", low=1, most=MOST)
    samples: int = setting(200, "how many trajectories are drawn from each", low=2, most=MOST)
    interval: float = setting(0.9, "the share of them that the interval holds", above=0, below=1)
    season: int | None = setting(
        None, "steps of a season, for the seasonal baseline; none: found in the training part", low=1
    )


@dataclass(frozen=True)
class WindowSettings(Settings):
    """Of tasks that learn from windows of series."""

    def check(self) -> None:
        if self.training.truncation.startswith("window"):
            raise OptionError("training.truncation=window:K is for streams of one long text; use none or every:K here.")


@dataclass(frozen=True)
class ForecastSettings(WindowSettings):
    data: ForecastData = field(default_factory=ForecastData)
    model: ForecastModelSettings = field(default_factory=ForecastModelSettings)
    backtest: BacktestSettings = field(default_factory=BacktestSettings)

    def check(self) -> None:
        super().check()
        if self.model.head in BINARY and (self.data.log or self.data.difference):
            raise OptionError(
                f"model.head={self.model.head} predicts 0 or 1: data.log and data.difference are for numbers."
            )


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""What a stream of numbers is told about the next step."""


class ForecastTask(StepTask[Forecaster]):
    """What all forecasters share: how they are made and trained on windows."""

    unit = "step"
    factorisation = (
        "A product of conditionals: p(y1 … yT) = Π p(yt | y1 … yt−1). What is drawn at one step is fed back as the next "
        "input, so outputs depend on one another."
    )
    evaluated_together = 64

    def model_for(self, channels: int, *, gaps: bool = False, lags: Sequence[int] | None = None) -> Forecaster:
        model = self.settings.model
        options = {name: getattr(model, name) for name in ("head", "components", "change", "skip")}
        baseline = None if lags is None else LinearPast(lags, channels)
        layers = self.make_recurrent(channels * (1 + gaps + (lags is not None)))
        return Forecaster(layers, channels, gaps=gaps, baseline=baseline, **options, **self.step_options())

    def train_on_windows(
        self, model: Forecaster, train: Windows, valid: Windows, fit: Callable[[Forecaster], None] | None = None
    ) -> Trainer:
        """- `fit`: before a model is validated, choose by validation data what no gradient does."""

        def validate(evaluated: Forecaster) -> float:
            if fit is not None:
                fit(evaluated)
            return evaluate(evaluated, valid, evaluated.loss, self.ranks).mean

        return self.train_on(model, train, validate, loss=model.loss)

    @torch.no_grad()
    def probe(self, model: Forecaster, steps: int) -> Probe:
        """Series that the model draws itself."""
        start = torch.zeros(1, 1, model.channels)
        drawn = model.run_free(start, draw_noise(4, steps, model.channels, 0))[0]
        return Probe(model.recurrent, model.embed(drawn.to(model.output.weight)))

    def name_outputs(self, model: Forecaster, hidden: Tensor) -> list[str]:
        """Numbers have no names."""
        return [""] * len(hidden)


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

    model: RunsFree
    scaling: Scaling

    def run_free(self, known: Float[Tensor, "B T C"], noise: Float[Tensor, "S K C"]) -> Float[Tensor, "B S K C"]:
        return self.scaling.restore(self.model.run_free(self.scaling.shrink(known), noise), known)


def _surely_smaller(parts: Sequence[Rolling], errors: Float[Tensor, " N"], others: Float[Tensor, " N"]) -> bool:
    """Whether errors from the origins of some parts are smaller than those of another forecast by more than the standard error of
    the difference."""
    gain = others - errors
    if gain.isinf().any():
        return bool((gain != -torch.inf).all())
    return float(gain.mean()) > standard_error(gain, parts)


class SeriesTask(ForecastTask):
    """A series from a file, or a synthetic one. With the vocabulary of a run folder, other series can be forecast."""

    data_kind = "series"
    keeps: ClassVar[Any] = {
        "columns": [str],
        "mean": [float],
        "scale": [float],
        "deviation": [float],
        "gaps": bool,
        "window": int,
        "season": (int, type(None)),
        "linear?": str,
        "lags?": [int],
    }

    @property
    def about(self) -> str:
        return str(self.settings.data.path or self.settings.data.task)

    @cached_property
    def parts(self) -> Parts:
        data = self.settings.data
        if data.path is not None:
            series = read_timed_series(data.path, data.columns, data.time)
        else:
            values = TO_FORECAST[data.task](data.length, self.settings.seed)
            series = Series((data.task,) if values.shape[1] == 1 else ("x", "y", "z"), values)
        T = len(series.values)
        test = T - int(T * data.test)
        valid = test - int(T * data.valid)
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
        if self.kept is not None:
            if len({len(self.kept[name]) for name in ("columns", "mean", "scale", "deviation")}) > 1:
                raise DataError(
                    "vocabulary.json scales another number of columns than it names. Put back a copy of it."
                )
            return Scaling(tuple(self.kept["mean"]), tuple(self.kept["scale"]), data.log, data.difference)
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
                f"{about} has values that are neither 0 nor 1, which is all that model.head={self.settings.model.head} predicts. "
                "Use gaussian, mixture or quantiles."
            )

    @property
    def held_out(self) -> tuple[str, int]:
        """The part that forecasts are scored on, and how many steps it has."""
        parts = self.parts
        T = len(parts.series.values)
        return ("for the test", T - parts.test) if self.settings.data.test else ("for validation", T - parts.valid)

    def make_vocabulary(self) -> dict[str, Any]:
        """The columns, how their values are scaled, how many steps a forecast reads, and the season."""
        series, scaling = self.parts.learned, self.scaling
        (part, size), horizon = self.held_out, self.settings.backtest.horizon
        if size < horizon:
            raise DataError(
                f"{self.about}: {len(self.parts.series.values):,} steps leave {size:,} {part}, fewer than the horizon of "
                f"{horizon:,} (backtest.horizon). Give a longer series, a shorter horizon, or other shares (data.valid, "
                "data.test)."
            )
        return {
            "columns": list(series.names),
            "mean": list(scaling.mean),
            "scale": list(scaling.scale),
            "deviation": [float(column[~column.isnan()].std()) for column in series.values.T],
            "gaps": bool(series.values.isnan().any()),
            "window": min(self.settings.data.window, len(series.values) - scaling.lag - 1),
            "season": self.season,
        } | ({} if self.linear is None else {"linear": self.linear[0], "lags": list(self.linear[1].lags)})

    @cached_property
    def linear(self) -> tuple[str, Autoregression] | None:
        """The baseline that the network goes on from, in the network's units, where model.combine asks for one: that with the
        smallest error over the horizon, in the validation part and in as many steps before it (there fitted without them). Or
        the mean of it and those that are not surely worse, where that has no larger error."""
        model = self.settings.model
        if self.binary or model.combine == "none" or (model.combine == "auto" and not model.change):
            return None
        learned, rolling = self._scaled, self._rolling
        values, length = rolling.values, len(rolling.values) - len(learned)
        known = self._linear_on(learned, rolling)
        fitted, parts = [known], [rolling]
        begin = len(learned) - length
        if begin > max(LEAST, length):
            parts.append(self._rolling_from(values[: len(learned)], begin))
            fitted.append(self._linear_on(learned[:begin], parts[1]))

        drawn = [replace(part, noise=draw_noise(DRAWN, part.horizon, values.shape[1], 0)) for part in parts]

        def errors(models: Sequence[Autoregression]) -> Float[Tensor, " N"]:
            """Of the median of drawn trajectories, as in the backtest: what is unstable beside its noise shows there."""
            return torch.cat([part.errors(model) for part, model in zip(drawn, models, strict=True)])

        both = {kind: errors([each[kind] for each in fitted]) for kind in known if all(kind in each for each in fitted)}
        best = min(both, key=lambda kind: float(both[kind].mean()))
        alike = [
            kind
            for kind in both
            if kind == best
            or (
                "naive" not in kind
                and float(both[kind].mean()) <= ALIKE * float(both[best].mean())
                and not _surely_smaller(parts, both[best], both[kind])
            )
        ]
        means = [Autoregression.mean([each[kind] for kind in alike], learned) for each in fitted]
        if len(alike) == 1 or not float(errors(means).mean()) <= float(both[best].mean()):
            # the mean of one-step predictions is a model of its own, which may even explode
            return best, known[best]
        return f"the mean of {', '.join(alike)}", means[0]

    def _linear_on(self, learned: Float[Tensor, "T C"], rolling: Rolling) -> dict[str, Autoregression]:
        """Baselines by their kind, none with lags of more than half a window."""
        most = max(1, min(self.settings.data.window, len(learned) - 1) // 2)
        following = rolling.values[len(learned) :]
        found = baselines_of(learned, following, self.season, most=most, horizon=rolling.horizon)
        return {kind_of(name): each for name, each in found.items()}

    def gain_of_log(self) -> float:
        """By which share the best baseline's error over the horizon shrinks in the validation part where logarithms are read."""
        parts, settings = self.parts, self.settings
        known = parts.series.values[: parts.test]
        if self.binary or settings.data.log or bool((known <= 0).any()):
            return 0.0
        errors = []
        for log in (False, True):
            other = type(self)(override(settings, {"data.log": log}))
            other.parts = parts
            if other.linear is None:
                return 0.0
            rolling = replace(other._rolling, values=known, origins=other._rolling.origins + settings.data.difference)
            errors.append(float(rolling.errors(Scaled(other.linear[1], other.scaling)).mean()))
        return 1 - errors[1] / max(errors[0], 1e-300)

    @property
    def _scaled(self) -> Float[Tensor, "T C"]:
        """The training part as the network reads it."""
        return self.scaling.shrink(self.parts.learned.values)

    @cached_property
    def _rolling(self) -> Rolling:
        """Origins of the validation part, as the network reads it, from each of which one trajectory is drawn: the median."""
        parts = self.parts
        return self._rolling_from(
            self.scaling.shrink(parts.series.values[: parts.test]), parts.valid - self.scaling.lag
        )

    def _rolling_from(self, values: Float[Tensor, "T C"], begin: int) -> Rolling:
        horizon, window = (
            min(self.settings.backtest.horizon, len(values) - begin),
            min(self.settings.data.window, begin),
        )
        rolling = roll(values, begin, horizon=horizon, window=window, origins=ORIGINS, samples=1, seed=0)
        return replace(rolling, noise=torch.full_like(rolling.noise, 0.5))

    @cached_property
    def season(self) -> int | None:
        """Of the training part, if there is one."""
        return self.settings.backtest.season or find_season(self.parts.learned.values)

    @property
    def about_data(self) -> str:
        parts, kept = self.parts, self.known
        T = len(parts.series.values)
        names = ", ".join(kept["columns"])
        times = f" by {parts.series.clock.name}" if parts.series.clock is not None else ""
        gaps = ", some values missing" if kept["gaps"] else ""
        gaps += "".join(f", {remark}" for remark in parts.series.remarks)
        season = f", a season of {kept['season']}" if kept["season"] else ", no season"
        return f"{self.about}: {names}{times}, {parts.valid:,} of {T:,} steps to learn from{gaps}{season}"

    @property
    def linear_name(self) -> str:
        """What the baseline that the network goes on from is called."""
        return str(self.known.get("linear", "a linear baseline"))

    def make_model(self) -> Forecaster:
        known, lags = self.known, self.known.get("lags")
        if max(lags or [0]) > max(known["window"], 1):
            raise DataError("vocabulary.json has lags of a baseline that exceed its window. Put back a copy of it.")
        return self.model_for(len(known["columns"]), gaps=known["gaps"], lags=lags)

    def make_trainer(self, model: Forecaster) -> Trainer:
        parts, window = self.parts, self.known["window"]
        learned = self.scaling.shrink(parts.learned.values).to(self.settings.precision)
        starts = torch.arange(len(learned) - window)
        train = Windows(learned, starts, torch.full_like(starts, window), **self.batch_options(training=True))
        valid = self._held_out(parts.series.values[: parts.test], parts.valid)
        if self.linear is None:
            return self.train_on_windows(model, train, valid)
        model.fill(self.linear[1], self._rolling.values)
        return self.train_on_windows(model, train, valid, self._fit_share)

    def _fit_share(self, model: Forecaster) -> None:
        """How much of the network's own part is left out: as much as makes the smallest error over the horizon in validation;
        with `auto` all of it, unless that error is surely smaller than the baseline's own."""
        errors = {}
        for share in LEFT_OUT:
            model.share.fill_(share)
            errors[share] = self._rolling.errors(model)
        best = min(errors, key=lambda share: float(errors[share].mean()))
        sure = self.settings.model.combine == "baseline" or _surely_smaller([self._rolling], errors[best], errors[1.0])
        model.share.fill_(best if sure else 1.0)

    def _held_out(self, values: Float[Tensor, "T C"], begin: int) -> Windows:
        """Every step from `begin` on counts once, after at least half a window of steps that are only read."""
        values, begin = self.scaling.shrink(values).to(self.settings.precision), begin - self.scaling.lag
        window = self.known["window"]
        skip = min(window // 2, begin - 1)
        starts = torch.arange(begin - 1 - skip, len(values) - 1 - skip, window - skip)
        lengths = (len(values) - 1 - starts).clamp(max=window)
        return Windows(values, starts, lengths, skip=skip, **self.batch_options(training=False))

    def evaluate(self, model: Forecaster, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """A backtest with a rolling origin: errors, CRPS and coverage, beside naive, seasonal naive and autoregression."""
        parts, kept = self.parts if data is None or baselines else None, self.known
        if data is not None:
            series, begin, name = self.read_other(data), self.reads, data
        else:
            assert parts is not None
            has_test = parts.test < len(parts.series.values)
            series = parts.series if has_test else replace(parts.series, values=parts.series.values[: parts.test])
            begin, name = (parts.test, "test") if has_test else (parts.valid, "validation")
        rolling = self._roll(series.values, begin)
        called = self.called if model.baseline is None else f"{self.called} on {self.linear_name}"
        rivals: dict[str, Any] = {called: Scaled(model, self.scaling)}
        if baselines:
            assert parts is not None
            rivals |= self._baselines(parts)
        found = {called: rolling.forecast(each) for called, each in rivals.items()}
        plain = len(kept["columns"]) == 1 or self.binary
        size = torch.tensor([1.0] if plain else kept["deviation"], dtype=torch.float64)
        level = self.settings.backtest.interval
        scores = {called: score_paths(paths / size, rolling.true / size, level) for called, paths in found.items()}
        if model.head.unit == "nats":
            scores[called]["nats"] = evaluate(model, self._held_out(series.values, begin), model.loss).mean
        unit = "" if plain else ", in standard deviations"
        about = f"{name}, {len(rolling.origins)} origins, {rolling.horizon} steps ahead{unit}"
        seen = self._look_back(series, rolling, found[called])
        return Evaluation(about, rolling.true.numel(), scores, self.units, forecast=seen)

    def compare(self, model: Forecaster) -> Comparison | None:
        """Absolute error of the median over the horizon; none where the validation part is shorter than that."""
        parts, settings = self.parts, self.settings.backtest
        values = parts.series.values[: parts.test]
        if self.binary or len(values) - max(parts.valid, self.reads) < settings.horizon:
            return None
        rolling = self._roll(values, parts.valid)
        size = torch.tensor(self.known["deviation"], dtype=torch.float64)
        rivals = {"": Scaled(model, self.scaling)} | self._baselines(parts)
        found = {
            name: score_paths(rolling.forecast(each) / size, rolling.true / size)["mae"]
            for name, each in rivals.items()
        }
        called = "the network alone" if model.baseline is None else f"the network on {self.linear_name}"
        tries = ["model.combine=auto"] if model.baseline is None and self.settings.model.change else []
        tries += [] if self.settings.data.log or bool((values <= 0).any()) else ["data.log=true"]
        advice = f"Try {', '.join([*tries, 'another backtest.season', 'or more training.steps'])}."
        note = "Errors are in standard deviations of the training part."
        return Comparison("mae", False, found.pop(""), found, advice, called=called, note=note)

    @property
    def known(self) -> dict[str, Any]:
        """The vocabulary, which every series has."""
        assert self.vocabulary is not None
        return self.vocabulary

    @property
    def reads(self) -> int:
        """How many known steps a forecast reads."""
        return int(self.known["window"]) + self.scaling.lag

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
        return baselines_of(
            parts.learned.values,
            parts.series.values[parts.valid : parts.test],
            self.known["season"],
            most=self.reads,
            horizon=self.settings.backtest.horizon,
        )

    def _look_back(self, series: Series, rolling: Rolling, paths: Float[Tensor, "O S K C"]) -> Forecast:
        """The forecast from the origin in the middle, with what came true."""
        k = len(rolling.origins) // 2
        origin = int(rolling.origins[k])
        seen = self._summed_up(series.values[: origin + 1], paths[k])
        return replace(seen, true=series.values[origin + 1 : origin + 1 + rolling.horizon])

    def _summed_up(self, known: Float[Tensor, "T C"], paths: Float[Tensor, "S K C"]) -> Forecast:
        """Draws as their median (of 0 and 1: their mean) and the interval around it."""
        names = tuple(self.known["columns"])
        if self.binary:
            return Forecast(names, known, paths.mean(0))
        level = self.settings.backtest.interval
        low, high = (each[0] for each in interval(paths[None], level))
        return Forecast(names, known, paths.median(0).values, low, high, level)

    def read_other(self, path: str) -> Series:
        """Another file with the columns that were learned, whatever else it has."""
        series = read_timed_series(path, self.known["columns"], self.settings.data.time)
        self.check_binary(series.values, path)
        return series

    def forecast(self, model: Forecaster, steps: int, data: str | None = None) -> Forecast:
        """What follows the run's series, or that of another file."""
        series = self.parts.series if data is None else self.read_other(data)
        values, least = series.values[-self.reads :], 2 + self.scaling.lag
        if len(values) < least:
            raise DataError(f"{data or self.about}: {len(values)} steps are known. Give at least {least}.")
        noise = draw_noise(self.settings.backtest.samples, steps, values.shape[1], self.settings.seed)
        paths = Scaled(model, self.scaling).run_free(values[None], noise)[0]
        times = () if series.clock is None else tuple(series.clock.after(steps))
        return replace(self._summed_up(series.values, paths), times=times)

    def streaming(self, model: Forecaster) -> Streaming:
        """Values of a step in; quantiles of the next step's values out."""
        if self.settings.data.difference:
            raise OptionError(
                f"a stream keeps its state alone, and data.difference={self.settings.data.difference} needs the values "
                f"of earlier steps too. Train with data.difference=0."
            )
        if self.binary:
            marginals(model.head, torch.zeros(model.channels))  # refuses a head that has none
        columns, dtype = self.known["columns"], self.settings.precision
        reads = f"a list of steps, each {len(columns)} number(s): {', '.join(columns)}; null where one is missing"

        def encode(given: Any) -> Tensor:
            values = read_steps(given, len(columns), reads)
            self.check_binary(values, "inputs")
            # step by step: a logarithm may have other last digits among several
            return torch.cat([self.scaling.shrink(step) for step in values.split(1)]).to(dtype)

        def answer(predicted: Float[Tensor, "N P"], top: int) -> list[Answer]:
            if self.binary:
                return [{"columns": columns, "probabilities": marginals(model.head, row)} for row in predicted]
            levels = torch.tensor(QUANTILES, dtype=torch.float64)
            found = []
            for row in predicted:
                drawn = model.head.quantiles(row.clone(), levels)
                values = self.scaling.restore(drawn[None, :, None], drawn[None])[0, :, 0].T.tolist()
                found.append({"columns": columns, "levels": list(QUANTILES), "quantiles": values})
            return found

        return Streaming(model, reads, encode, answer)

    def examples(self, model: Forecaster) -> Examples:
        return forecast_examples(self.forecast(model, 2 * self.settings.backtest.horizon))


@recipe(SeriesTask, "forecast")
def forecast_recipe() -> ForecastSettings:
    """how a series of numbers goes on, with intervals, beside baselines: data.path=FILE.csv"""
    return ForecastSettings(
        model=ForecastModelSettings(cell="gru", hidden_size=64, combine="auto"),
        training=Training(
            steps=300,
            batch_size=32,
            truncation="none",
            learning_rate=5e-3,
            average="ema:0.99",
            validate_every=50,
            patience=6,
            save_every=250,
        ),
    )


@forecast_recipe.rule
def forecast_rule(task: SeriesTask) -> Iterator[Derived]:
    """a long series is trained on for longer; logarithms are read where baselines do better with them; a forecast is at most half
    as long as the part that it is scored on"""
    length, (_, size) = task.parts.valid, task.held_out
    if size // 2 < task.settings.backtest.horizon:
        yield Derived("backtest.horizon", max(1, size // 2), f"{size} steps to score forecasts on")
    if length >= LONG:
        yield Derived("training.steps", 900, f"{length:,} steps to learn from")
    gain = task.gain_of_log()
    if gain > GAIN:
        yield Derived(
            "data.log", True, f"with logarithms the best baseline's error over the horizon is {gain:.0%} smaller"
        )
