"""Real numbers from feed-forward networks: squared error, J = ½ mean ‖t − z‖², for a table's column or a function with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from recurra.data.batches import Batch
from recurra.data.classes import LabelledBatches, Measured
from recurra.data.number_table import read_measured
from recurra.data.text import split_lines
from recurra.errors import DataError
from recurra.lecture.approximation import FUNCTIONS
from recurra.models.feedforward import Feedforward, basis_expansion, for_numbers, linear_classifier, multilayer
from recurra.tasks.feedforward import HELD_OUT, ONLY, FeedforwardModelSettings
from recurra.tasks.recipe import recipe
from recurra.tasks.results import SHOWN, Evaluation, Examples, Predictions
from recurra.tasks.task import Settings, Task, check_shares, count_parameters, of_files, of_synthetic
from recurra.training.distributed import Ranks
from recurra.training.evaluation import evaluate_whole
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_square
from recurra.types import Float, setting

MAKERS: dict[str, Callable[..., Feedforward]] = {
    "linear": linear_classifier,
    "basis": basis_expansion,
    "layers": multilayer,
}


@dataclass(frozen=True)
class RegressionData:
    path: str | None = setting(None, "a table of numbers (.csv, .tsv, .txt; gzip too); none: a function with noise")
    target: str | None = setting(
        None, "the column to predict, by name or number; none: guessed, and printed", idle=of_files
    )
    task: str = setting("sine", f"the function: {', '.join(FUNCTIONS)}", choices=FUNCTIONS, idle=of_synthetic)
    count: int = setting(1000, "how many synthetic points to learn from", low=2, idle=of_synthetic)
    noise: float = setting(0.05, "added to the values of synthetic points", low=0, idle=of_synthetic)
    valid: float = setting(0.15, "the share of a file's rows that chooses the model", idle=of_files)
    test: float = setting(0.15, "the share of a file's rows that is kept for the last evaluation", idle=of_files)

    def check(self) -> None:
        check_shares(self.valid, self.test)


@dataclass(frozen=True)
class RegressionModelSettings(FeedforwardModelSettings):
    kind: str = setting("layers", "linear, basis or layers", choices=MAKERS)


@dataclass(frozen=True)
class RegressionSettings(Settings):
    whole: ClassVar[str | None] = "examples of one size"
    model: RegressionModelSettings = field(default_factory=RegressionModelSettings)
    data: RegressionData = field(default_factory=RegressionData)

    def idle(self) -> dict[str, str]:
        return {"engine": "engines run recurrent cells, and there is none here"}


def synthetic_values(task: str, count: int, seed: int, noise: float) -> Measured:
    """Points of the unit interval or square, and a function's value at each, with noise."""
    variables, function = FUNCTIONS[task]
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(count, variables, generator=draw, dtype=torch.float64)
    y = function(x) + noise * torch.randn(count, generator=draw, dtype=torch.float64)
    return Measured(x, y[:, None], ("x", "y")[:variables], task, f"{task}: {count:,} points")


class RegressionTask(Task[Feedforward]):
    """A feed-forward network that predicts a number; targets are learned at mean 0 and deviation 1."""

    data_kind = "table"
    keeps: ClassVar[Any] = {"columns": [str], "target": str, "mean": float, "deviation": float}
    unit = "example"
    evaluated_together = 512
    factorisation = "One number for each example: its mean, given the inputs."

    @cached_property
    def parts(self) -> tuple[Measured, Measured, Measured]:
        """Examples to learn from, to choose by, and to test with."""
        data, seed = self.settings.data, self.settings.seed
        if data.path is None:
            sizes = (data.count, HELD_OUT, HELD_OUT)
            first, second, third = (
                synthetic_values(data.task, size, 3 * seed + k, data.noise) for k, size in enumerate(sizes)
            )
            return first, second, third
        found = read_measured(data.path, data.target)
        dealt = split_lines(range(len(found)), data.valid, data.test, seed)
        if not dealt[0] or not dealt[1]:
            raise DataError(f"{found.about}: too few to learn from and to choose by. Give more.")
        first, second, third = (found.take(part) for part in dealt)
        return first, second, third

    def make_vocabulary(self) -> dict[str, Any]:
        """The names of the columns, and the mean and deviation of what is predicted."""
        train = self.parts[0]
        deviation = float(train.labels.std(correction=0))
        scale = {"mean": float(train.labels.mean()), "deviation": deviation if deviation > 1e-12 else 1.0}
        return {"columns": list(train.columns), "target": train.target} | scale

    @property
    def about_data(self) -> str:
        return f"{self.parts[0].about}, {len(self.parts[0]):,} to learn from"

    @property
    def called(self) -> str:
        model = self.settings.model
        if model.kind == "layers":
            return f"{model.layers} × {model.hidden_size} {model.activation}"
        return "linear" if model.kind == "linear" else f"{model.basis} basis"

    def about_model(self, model: Feedforward) -> str:
        return f"{self.called} with {count_parameters(model):,} parameters, squared error"

    def make_model(self) -> Feedforward:
        model, known = self.settings.model, self.vocabulary or {}
        options = {name: getattr(model, name) for name in ONLY[model.kind]}
        return for_numbers(MAKERS[model.kind]([len(known["columns"])], 2, **options))

    def _scaled(self, examples: Measured) -> Measured:
        known = self.vocabulary or {}
        values = (examples.labels - known["mean"]) / known["deviation"]
        return examples.with_labels(values.to(self.settings.precision))

    def make_batches(self, examples: Measured, *, training: bool) -> LabelledBatches:
        return LabelledBatches(self._scaled(examples), **self.batch_options(training=training))

    def make_trainer(self, model: Feedforward) -> Trainer:
        train, valid, _ = self.parts
        model.prepare(train.x.to(model.output.weight.device))
        chosen = self.make_batches(valid, training=False)
        batches = self.make_batches(train, training=True)
        return self.train_on(
            model, batches, lambda model: squared_error(model, chosen, self.ranks), whole=regression_loss
        )

    def evaluate(self, model: Feedforward, data: str | None = None, *, baselines: bool = True) -> Evaluation:
        """The mean squared error and R², beside the mean of the training data and the line of least squares."""
        known = self.vocabulary or {}
        examples, name = (self.parts[2], "test") if len(self.parts[2]) else (self.parts[1], "validation")
        if data is not None:
            examples, name = read_measured(data, known["target"], columns=known["columns"]), data
        error = squared_error(model, self.make_batches(examples, training=False)) * known["deviation"] ** 2
        errors = {self.called: error}
        if baselines:
            train = self.parts[0]
            errors["linear, least squares"] = float((_line(train, examples.x) - examples.labels).square().mean())
            errors["always the mean"] = float((train.labels.mean() - examples.labels).square().mean())
        spread = max(float(examples.labels.var(correction=0)), 1e-300)
        scores = {name: {"mean squared error": each, "R²": 1 - each / spread} for name, each in errors.items()}
        return Evaluation(name, len(examples), scores, self.units)

    @torch.no_grad()
    def predict(self, model: Feedforward, data: str | None = None) -> Predictions:
        """The number of each row of a table, or of the run's own test part."""
        known = self.vocabulary or {}
        examples = (
            self.parts[2] if data is None else read_measured(data, None, columns=known["columns"], labelled=False)
        )
        found = model(examples.x.to(model.output.weight.device)).double().cpu() * known["deviation"] + known["mean"]
        return Predictions([{known["target"]: value} for value in found[:, 0].tolist()])

    def examples(self, model: Feedforward) -> Examples:
        part = self.parts[2] if len(self.parts[2]) else self.parts[1]
        some, name = part.take(range(min(SHOWN, len(part)))), (self.vocabulary or {})["target"]
        with torch.no_grad():
            known = self.vocabulary or {}
            values = (
                model(some.x.to(model.output.weight.device)).double().cpu()[:, 0] * known["deviation"] + known["mean"]
            )
        rows = [
            (" ".join(f"{value:.3g}" for value in x.tolist()[:8]), f"{z:.4g}", f"{t:.4g}")
            for x, z, t in zip(some.x, values.tolist(), some.labels[:, 0].tolist(), strict=True)
        ]
        return Examples(("example", f"{name}, predicted", "true"), rows, "evaluate RUN")


def regression_loss(model: Feedforward, batch: Batch) -> Float[Tensor, ""]:
    """½ ‖t − z‖², summed."""
    predicted = model(batch.inputs[:, 0].to(model.output.weight.device))
    loss: Tensor = 0.5 * (predicted - batch.targets[:, 0].to(predicted)).square().sum()
    return loss


def squared_error(model: Feedforward, batches: LabelledBatches, ranks: Ranks = Ranks()) -> float:
    """The mean of ‖t − z‖² over one pass. The model is left in its mode."""
    device = model.output.weight.device
    found = evaluate_whole(
        model, batches, lambda batch: model(batch.inputs[:, 0].to(device))[:, None], ranks, weighted_square
    )
    return found.mean


def _line(train: Measured, x: Tensor) -> Float[Tensor, "N 1"]:
    """The linear function of least squares on training data, at other inputs."""

    def extended(values: Tensor) -> Tensor:
        return torch.cat([values.double(), torch.ones(len(values), 1, dtype=torch.float64)], dim=1)

    solved: Tensor = torch.linalg.lstsq(extended(train.x), train.labels.double(), driver="gelsd").solution
    return extended(x) @ solved


@recipe(RegressionTask)
def regression() -> RegressionSettings:
    """a number from a table's other columns (data.path=FILE), or a function with noise: squared error"""
    return RegressionSettings(
        model=RegressionModelSettings(activation="tanh"),
        training=Training(steps=1500, batch_size=64, learning_rate=1e-2, validate_every=250, save_every=500),
    )
