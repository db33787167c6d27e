"""Echo state networks on series: the settings, and how they become data, a reservoir and its readout."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.analysis.echo import echo_state
from recurra.data.series import Series, read_series
from recurra.data.series_tasks import TO_FORECAST, narma
from recurra.errors import DataError, OptionError
from recurra.layers.recurrent import Recurrent
from recurra.models.reservoir import EchoState, ReadoutFit
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.tasks.capabilities import Probe
from recurra.tasks.recipe import recipe
from recurra.tasks.results import Evaluation, Examples, Forecast, forecast_examples
from recurra.tasks.task import Settings, StepTask, check_shares, of_files, of_synthetic
from recurra.training.closed_form import ClosedForm
from recurra.training.distributed import Ranks
from recurra.training.free_running import Places, reach_places
from recurra.training.soundness import check_weights
from recurra.types import DEEPEST, MOST, Float, setting

PENALTIES = (1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)
LARGE = 1e100
"""Beyond this, products of weights are not finite."""
ECHO = 300
"""Steps over which two starts are watched."""


def _is_driven(settings: Any) -> bool:
    return settings.data.path is None and settings.data.task == "narma"


def _of_forecasts(settings: Any) -> str | None:
    return "it is for forecasts, and data.task=narma is none" if _is_driven(settings) else None


@dataclass(frozen=True)
class SeriesData:
    path: str | None = setting(None, "a CSV file with a row of numbers for each step; none: data.task")
    columns: tuple[str, ...] = setting((), "the columns of the file to read, by name; none: all", idle=of_files)
    task: str = setting(
        "mackey-glass",
        "mackey-glass, lorenz, sines, seasons (to forecast) or narma (a filter to imitate)",
        choices=(*TO_FORECAST, "narma"),
        idle=of_synthetic,
    )
    length: int = setting(10_000, "steps of a synthetic series", low=1, most=MOST, idle=of_synthetic)
    valid: float = setting(0.3, "the share of the series, after the training part, that settings are chosen by")
    test: float = setting(0.3, "the share at its end that is kept for the last evaluation")

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class ReservoirModelSettings:
    hidden_size: int = setting(1000, "units of each layer", low=1, most=MOST)
    layers: int = setting(1, "how many are stacked; the readout reads all of them", low=1, most=DEEPEST)
    reservoirs: int = setting(1, "how many run side by side", low=1, most=DEEPEST)
    radius: float = setting(1.0, "the largest |λ| of a recurrent matrix", high=LARGE)
    density: float = setting(1.0, "the share of recurrent weights that are not zero")
    leak: tuple[float, ...] = setting(
        (0.8,), "the share of its state that a unit renews at a step; several: groups of units"
    )
    input_scale: float = setting(0.2, "input weights are uniform in ± this; inputs are standardised", low=0, high=LARGE)
    bias_scale: float = setting(0.2, "biases are uniform in ± this", low=0, high=LARGE)
    feedback: bool = setting(
        False,
        "of narma: also read the output of the step before; a forecast always does",
        idle=lambda s: None if _is_driven(s) else "a forecast always reads the output of the step before",
    )


@dataclass(frozen=True)
class Solving:
    washout: int = setting(
        1000, "steps that are read before the first that counts, so that the start is forgotten", low=0
    )
    penalty: float | None = setting(
        None,
        "of the readout's squared weights (ridge regression); none: of 1e-15 to 1, the best in validation",
        above=0,
    )
    horizon: int = setting(
        84,
        "validation: how many steps after the last known value a forecast is scored",
        low=1,
        most=MOST,
        idle=_of_forecasts,
    )
    starts: int = setting(
        50, "validation: from how many places forecasts are made", low=1, most=MOST, idle=_of_forecasts
    )


@dataclass(frozen=True)
class ReservoirSettings(Settings):
    # no optimiser and no cell to choose: these groups are its own, by the names that every task has
    model: ReservoirModelSettings = field(default_factory=ReservoirModelSettings)
    training: Solving = field(default_factory=Solving)  # type: ignore[assignment]
    data: SeriesData = field(default_factory=SeriesData)
    dtype: str = setting(
        "float64", "float64: a readout that is solved for needs all of it", read=lambda dtype: check_dtype(dtype)
    )


def check_dtype(dtype: str) -> None:
    if dtype != "float64":
        raise OptionError(f"dtype={dtype}: a readout that is solved for needs float64. Leave dtype out.")


@dataclass(frozen=True, eq=False)
class Parts:
    """A series to say and the inputs that drive it, if any do; where validation and test begin."""

    names: tuple[str, ...]
    outputs: Float[Tensor, "T O"]
    inputs: Float[Tensor, "T D"] | None
    valid: int
    test: int

    def cut(self, begin: int, end: int) -> tuple[Float[Tensor, "1 N O"], Float[Tensor, "1 N D"] | None]:
        """Some steps of outputs and inputs, as one lane."""
        return self.outputs[None, begin:end], None if self.inputs is None else self.inputs[None, begin:end]


def read_parts(data: SeriesData, seed: int) -> Parts:
    """The series of a file or a task, split: what is learned comes first, what is for the test last."""
    inputs: Tensor | None = None
    if data.path is not None:
        series = read_series(data.path, data.columns)
    elif data.task == "narma":
        inputs, outputs = narma(data.length, seed)
        series = Series((data.task,), outputs)
    else:
        outputs = TO_FORECAST[data.task](data.length, seed)
        series = Series((data.task,) if outputs.shape[1] == 1 else ("x", "y", "z"), outputs)
    T = len(series.values)
    test = T - int(T * data.test)
    return Parts(series.names, series.values, inputs, test - int(T * data.valid), test)


def check_parts(parts: Parts, about: str, settings: Solving) -> None:
    """Refuse a series that is too short to be learned or scored, and one that never changes."""
    T, valid, test = len(parts.outputs), parts.valid, parts.test
    needed = settings.washout + 2
    if valid < needed:
        raise DataError(
            f"{about}: {T:,} steps leave {valid:,} to learn from, fewer than {needed:,} (training.washout and two more). "
            "Give a longer series, smaller data.valid and data.test, or a shorter training.washout."
        )
    horizon = settings.horizon if parts.inputs is None else 1
    for part, size in (("valid", test - valid), ("test", T - test)):
        if size <= horizon and (part == "valid" or size):
            raise DataError(
                f"{about}: data.{part} is {size:,} of {T:,} steps, too few to judge forecasts of {horizon}. "
                "Give a longer series, a larger share or a shorter training.horizon."
            )
    for name, column in zip(parts.names, parts.outputs[:valid].T, strict=True):
        if bool((column == column[0]).all()):
            raise DataError(
                f"{about}: {name} is {float(column[0]):g} in all {valid:,} steps to learn from. "
                "There is nothing to learn in it: leave it out with data.columns."
            )


class ReservoirTask(StepTask[EchoState]):
    """A series that is forecast (its outputs are all that is read), or one that inputs drive (NARMA)."""

    data_kind = "series"
    keeps: ClassVar[Any] = {"columns": [str]}
    unit = "step"
    factorisation = "It predicts numbers, not probabilities; in a forecast each of them is fed back as the next input."

    def __init__(self, settings: ReservoirSettings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None):
        super().__init__(settings, ranks, vocabulary)
        if ranks.world > 1:
            raise OptionError("a readout is solved for in one process. Start recurra train without torchrun.")

    @property
    def driven(self) -> bool:
        """Whether there are inputs besides the series itself."""
        return self.settings.data.path is None and bool(self.settings.data.task == "narma")

    def make_vocabulary(self) -> dict[str, Any]:
        """The names of the columns: what forecasts are of."""
        return {"columns": list(self.parts.names)}

    @property
    def columns(self) -> list[str]:
        return list((self.vocabulary or {})["columns"])

    @cached_property
    def parts(self) -> Parts:
        data, settings = self.settings.data, self.settings.training
        parts = read_parts(data, self.settings.seed)
        check_parts(parts, data.path or data.task, settings)
        return parts

    @property
    def called(self) -> str:
        return f"reservoir-{self.settings.model.hidden_size}"

    @property
    def about_data(self) -> str:
        parts, data = self.parts, self.settings.data
        return f"{data.path or data.task}, {parts.valid:,} of {len(parts.outputs):,} steps to learn from"

    def about_model(self, model: EchoState) -> str:
        settings, parts = self.settings.model, self.parts
        side = f"{settings.reservoirs} × " if settings.reservoirs > 1 else ""
        deep = f" in {settings.layers} layers" if settings.layers > 1 else ""
        x, _ = model.rows(*parts.cut(0, ECHO))
        echo = "; ".join(str(echo_state(each, x[0])) for each in model.stacks)
        return f"{side}{settings.hidden_size:,} units{deep}; {echo}"

    def make_model(self) -> EchoState:
        return self._build(draw=True)

    def _build(self, *, draw: bool) -> EchoState:
        settings, columns = self.settings.model, len(self.columns)
        return EchoState(
            1 if self.driven else 0,
            columns,
            feedback=settings.feedback or not self.driven,
            hidden_size=settings.hidden_size,
            leak=settings.leak,
            layers=settings.layers,
            reservoirs=settings.reservoirs,
            radius=settings.radius,
            density=settings.density,
            input_scale=settings.input_scale,
            bias_scale=settings.bias_scale,
            engine=self.settings.engine,
            draw=draw,
        )

    def trained(self, checkpoint: Checkpoint, about: str) -> EchoState:
        model = self._build(draw=False)
        check_weights(checkpoint.weights, f"{about}, the checkpoint of step {checkpoint.step},")
        restore_weights(model, checkpoint.weights, about)
        return model.eval()

    def make_trainer(self, model: EchoState) -> ClosedForm:
        parts, settings = self.parts, self.settings.training
        taught = parts.outputs[: parts.valid], None if parts.inputs is None else parts.inputs[: parts.valid]
        model.standardise(*taught)
        fit = ReadoutFit(model, *taught, settings.washout)
        penalties = PENALTIES if settings.penalty is None else (settings.penalty,)
        places: Places | None = None

        def evaluate(model: EchoState) -> float:
            nonlocal places
            if self.driven:
                return _logarithm(self._imitate(model, parts.valid, parts.test)[0])
            places = places or self._places(model, parts.outputs[: parts.test], parts.valid)
            return _logarithm(places.forecasts(model).nrmse(settings.horizon))

        return ClosedForm(fit, penalties, evaluate)

    def _places(self, model: EchoState, values: Tensor, begin: int) -> Places:
        settings = self.settings.training
        return reach_places(
            model, values, begin, washout=settings.washout, horizon=settings.horizon, starts=settings.starts
        )

    @property
    def _read_before(self) -> int:
        """How many known steps are read before the network goes on alone: two make the first step that is fed."""
        return max(2, int(self.settings.training.washout))

    @torch.no_grad()
    def _imitate(self, model: EchoState, begin: int, end: int) -> tuple[float, int]:
        """The error of a driven series over a part, and its steps; fed back is what the network itself predicts."""
        parts = self.parts
        assert parts.inputs is not None
        states, last = model.warm_up(*parts.cut(max(0, begin - self._read_before), begin))
        inputs, true = parts.inputs[None, begin:end], parts.outputs[begin:end]
        if model.feedback:
            predicted = model.run_free(end - begin, states, last, inputs)
        else:
            x, _ = model.rows(true[None], inputs)
            predicted = model(x, states)[0] * model.scale[1:] + model.shift[1:]
        error = (predicted[0].cpu() - true).square() / true.var(0)
        return float(error.mean().sqrt()), end - begin

    def evaluate(self, model: EchoState, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """The error of free-running forecasts at one step and at the horizon, or of a driven series, beside the last value."""
        parts, settings = self.parts, self.settings.training
        called = self.called
        has_test = parts.test < len(parts.outputs)
        begin, end, name = (
            (parts.test, len(parts.outputs), "test") if has_test else (parts.valid, parts.test, "validation")
        )
        if self.driven:
            if data is not None:
                raise OptionError("narma is synthetic: data is for series that were read from a file. Leave it out.")
            error, steps = self._imitate(model, begin, end)
            scores = {called: _row({"": error})}
            if baselines:
                scores["always the mean"] = _row({"": 1.0})
            return Evaluation(name, steps, scores, self.units)
        values = parts.outputs[:end]
        if data is not None:
            values, begin, name = self.read_other(data), settings.washout, data
            if len(values) <= settings.washout + settings.horizon:
                raise DataError(
                    f"{name}: {len(values):,} steps, not more than the washout of {settings.washout:,} and the horizon of "
                    f"{settings.horizon:,} together. Give a longer series."
                )
        made = self._places(model, values, begin).forecasts(model)
        scores = {called: _row({f" at {k}": made.nrmse(k) for k in (1, settings.horizon)})}
        if baselines:
            scores["the last value again"] = _row({f" at {k}": made.persistence(k) for k in (1, settings.horizon)})
        return Evaluation(name, len(made.predicted) * settings.horizon, scores, self.units)

    def read_other(self, path: str) -> Float[Tensor, "T C"]:
        """Another file with the columns that were learned."""
        series = read_series(path, self.settings.data.columns)
        columns = self.columns
        if set(series.names) == set(columns):
            return series.values[:, [series.names.index(name) for name in columns]]
        if len(series.names) != len(columns):
            raise DataError(
                f"{path} has {len(series.names)} columns; the model forecasts {len(columns)}: {', '.join(columns)}."
            )
        return series.values

    @property
    def lacks(self) -> tuple[str, ...]:
        return ("forecast",) if self.driven else ()

    def forecast(self, model: EchoState, steps: int, data: str | None = None) -> Forecast:
        """What follows the run's series, or that of another file."""
        if self.driven:
            raise OptionError(
                "narma follows inputs that nobody knows yet: there is nothing to forecast. Use recurra evaluate."
            )
        known = self.parts.outputs if data is None else self.read_other(data)
        washout = self.settings.training.washout
        if len(known) < self._read_before:
            raise DataError(
                f"{data or self.settings.data.path}: {len(known):,} steps are known, fewer than the washout of {washout:,}. "
                "Give a longer series."
            )
        predicted = model.run_free(steps, *model.warm_up(known[None, -self._read_before :]))
        return Forecast(tuple(self.columns), known, predicted[0].cpu())

    def examples(self, model: EchoState) -> Examples | None:
        """A forecast of the first series, run free from the end of what is known."""
        if self.driven:
            return None
        return forecast_examples(self.forecast(model, 2 * self.settings.training.horizon))

    def probe(self, model: EchoState, steps: int) -> Probe:
        """A series that the network draws itself; standard normal inputs, where inputs drive it."""
        x = torch.randn(1, steps, model.stacks[0].input_size, generator=torch.Generator().manual_seed(0)).to(
            model.shift
        )
        if not self.driven:
            known = model.shift[None, None].expand(1, 2, -1)
            drawn = model.run_free(steps + 1, *model.warm_up(known))
            x, _ = model.rows(drawn)
        return Probe(model.stacks[0], x)

    def _layers(self, model: EchoState) -> Recurrent:
        return model.stacks[0]

    def name_outputs(self, model: EchoState, hidden: Tensor) -> list[str]:
        """Numbers have no names."""
        return [""] * len(hidden)


def _row(errors: dict[str, float]) -> dict[str, float]:
    """Both as they are and as their logarithm, in which they are published."""
    return {f"nrmse{at}": error for at, error in errors.items()} | {
        f"log10{at}": _logarithm(error) for at, error in errors.items()
    }


def _logarithm(error: float) -> float:
    return math.log10(max(error, 1e-300))


@recipe(ReservoirTask)
def reservoir() -> ReservoirSettings:
    """an echo state network, solved for in seconds, on a chaotic series or on yours: data.path=FILE.csv"""
    return ReservoirSettings()
