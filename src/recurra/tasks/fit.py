"""`fit`: a module, batches and a loss of the user's own, with a run folder like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recurra.errors import OptionError, RunError
from recurra.runs.checkpoint import Checkpoint, restore_weights
from recurra.runs.folder import RunFolder
from recurra.tasks.results import Evaluation
from recurra.tasks.run import Run
from recurra.tasks.settings import override, to_dict
from recurra.tasks.task import Settings, Task, count_parameters
from recurra.tasks.training_run import train_run
from recurra.training.distributed import Ranks, join
from recurra.training.fit import FitTrainer, GivenBatches, Loss
from recurra.training.loop import Training
from recurra.training.soundness import check_weights
from recurra.types import setting


@dataclass(frozen=True)
class ModuleSettings:
    name: str = setting("", "the class of the module")


@dataclass(frozen=True)
class FitSettings(Settings):
    """What a run of `fit` depends on, besides the user's own code."""

    name: str = setting("fit", "which recipe this is")
    model: ModuleSettings = field(default_factory=ModuleSettings)
    training: Training = field(
        default_factory=lambda: Training(
            steps=1000, truncation="none", schedule="constant", learning_rate=1e-3, warmup=0, clip_norm=1.0
        )
    )


class FitTask(Task[nn.Module]):
    """The user's module, batches and loss as a task; opened from a folder it has the module alone, if that is given."""

    unit = "row"
    factorisation = "A module of your own: only its loss knows."

    def __init__(
        self,
        settings: FitSettings,
        ranks: Ranks = Ranks(),
        vocabulary: dict[str, Any] | None = None,
        *,
        model: nn.Module | None = None,
        batches: Any = None,
        loss: Loss | None = None,
        validate: Callable[[Any], float] | None = None,
    ):
        super().__init__(settings, ranks, vocabulary)
        self.model, self.batches, self.loss, self.validate = model, batches, loss, validate

    @property
    def about_data(self) -> str:
        return "batches of your own"

    @property
    def called(self) -> str:
        return str(self.settings.model.name)

    def about_model(self, model: nn.Module) -> str:
        return (
            f"{self.called} with {count_parameters(model):,} parameters, truncation {self.settings.training.truncation}"
        )

    def make_model(self) -> nn.Module:
        if self.model is None:
            raise RunError(
                f"this run is of a module of your own ({self.called}): open it with rc.open(path, model=MODULE)."
            )
        return self.model

    def trained(self, checkpoint: Checkpoint, about: str) -> nn.Module:
        model = self.make_model()
        check_weights(checkpoint.evaluated, f"{about}, the checkpoint of step {checkpoint.step},")
        restore_weights(model, checkpoint.evaluated, about)
        return model.eval()

    def trainer(self) -> FitTrainer:
        torch.manual_seed(self.settings.seed)
        return self.make_trainer(self.make_model())

    def make_trainer(self, model: nn.Module) -> FitTrainer:
        assert self.loss is not None
        return FitTrainer(
            model,
            GivenBatches(self.batches, self.settings.seed, self.ranks),
            self.settings.training,
            None if self.validate is None else self._validated,
            self.loss,
            bfloat16=self.settings.dtype == "bfloat16",
            ranks=self.ranks,
        )

    def _validated(self, model: nn.Module) -> float:
        """The number that the user's function gives, in evaluation mode and without gradients."""
        assert self.validate is not None
        training = model.training
        with torch.no_grad():
            value = float(self.validate(model.eval()))
        model.train(training)
        return value

    def evaluate(self, model: nn.Module, *, baselines: bool = True) -> Evaluation:
        if self.validate is None:
            raise OptionError("this run has no evaluate function: give one to rc.fit(..., evaluate=FUNCTION).")
        return Evaluation("validation", 1, {self.called: {"value": self._validated(model)}}, "evaluation")


def fit(
    model: nn.Module,
    batches: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    loss: Loss,
    evaluate: Callable[[Any], float] | None = None,
    out: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
    tensorboard: bool = False,
    progress: str = "auto",
    seed: int = 0,
    dtype: str = "float32",
    **training: Any,
) -> Run:
    """Train a module of your own on the loop of all runs: clipping, averaging, schedules, ranks, a folder that resumes exactly.

    - `batches`: any iterable, also a `torch.utils.data.DataLoader`, or a function that makes one; an epoch is one pass. Of
      several ranks (`torchrun`) each takes its rows of every batch.
    - `loss`: `loss(model, batch)` gives the mean loss. `loss(model, batch, state)` gives it and the state to carry to the next
      batch: tensors in tuples, lists and dictionaries, which are detached; it is `None` at the start of an epoch. With
      `truncation="every:K"` a batch is cut in time, axis 1.
    - `evaluate`: the model, in evaluation mode, to a number on validation data, less is better; the best model is kept. Without
      it the last one is.
    - `out`: the run folder. If it holds a run of these settings, training goes on from its last checkpoint.
    - settings of training by name: `steps`, `learning_rate`, `optimiser`, `clip_norm`, `average`, `schedule`, `save_every` …

    ```python
    model = torch.nn.Linear(3, 1)
    data = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(10)]
    run = rc.fit(model, data, loss=lambda model, batch: (model(batch[0]) - batch[1]).square().mean(), steps=20)
    ```
    """
    if not isinstance(model, nn.Module):
        raise OptionError(f"model must be a torch.nn.Module; got {type(model).__name__}.")
    usual = FitSettings(model=ModuleSettings(type(model).__name__), seed=seed, dtype=dtype)
    device = next((each.device.type for each in model.parameters()), "cpu")
    settings = override(usual, {"device": device} | {f"training.{name}": value for name, value in training.items()})
    task = FitTask(settings, model=model, batches=batches, loss=loss, validate=evaluate)
    how: dict[str, Any] = {"minutes": minutes, "tensorboard": tensorboard, "progress": progress}
    with join(device) as task.ranks:
        known = None
        if out is not None and (Path(out) / "recipe.json").exists():
            known = Run(RunFolder.create(Path(out), to_dict(settings), resume=True), task)
        return train_run(task, known, out=out, **how)


__all__ = ["FitTask", "fit"]
