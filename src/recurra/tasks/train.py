"""From Python to a run: train, open, runs.

The way of a call: `train` → `Recipe.configure` → `Task` → `train_run` → `Task.trainer` → `make_trainer` → `Trainer`; then
`train_in_folder` → `follow` reads `Trainer.events`, whose `advance` is one step of the optimiser.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

from torch import nn

from recurra.cells.notation import Cell
from recurra.errors import OptionError, RunError
from recurra.runs.disk import reason
from recurra.runs.folder import RunFolder, list_runs, warn
from recurra.tasks.catalogue import find_recipe, open_task
from recurra.tasks.fit import FitSettings, FitTask
from recurra.tasks.folds import Folds, train_folds
from recurra.tasks.recipe import Recipe
from recurra.tasks.run import Run
from recurra.tasks.settings import from_dict
from recurra.tasks.task import Task
from recurra.tasks.training_run import train_run
from recurra.training.distributed import join

PathLike = str | os.PathLike[str]


@overload
def train(
    recipe: str | Recipe | Task[Any] = ...,
    data: Any = None,
    *,
    out: PathLike | None = None,
    minutes: float | None = None,
    monitor: int | None = None,
    tensorboard: bool = False,
    progress: str = "auto",
    settings: Mapping[str, Any] | list[str] | str | None = None,
    folds: None = None,
    **named: Any,
) -> Run: ...


@overload
def train(
    recipe: str | Recipe | Task[Any] = ...,
    data: Any = None,
    *,
    out: PathLike | None = None,
    minutes: float | None = None,
    monitor: int | None = None,
    tensorboard: bool = False,
    progress: str = "auto",
    settings: Mapping[str, Any] | list[str] | str | None = None,
    folds: int,
    **named: Any,
) -> Folds: ...


def train(
    recipe: str | Recipe | Task[Any] = "python-source",
    data: Any = None,
    *,
    out: PathLike | None = None,
    minutes: float | None = None,
    monitor: int | None = None,
    tensorboard: bool = False,
    progress: str = "auto",
    settings: Mapping[str, Any] | list[str] | str | None = None,
    folds: int | None = None,
    **named: Any,
) -> Any:
    """Train a model by a recipe (or a task that is configured), in a run folder that resumes after a kill.

    - `recipe`: its name (`recurra recipes` lists them). `data`: a path, a list of strings, NumPy arrays, tensors, a pandas
      DataFrame, or a list of sequences of unequal length, as the recipe reads them.
    - `out`: the run folder; runs/RECIPE-N otherwise. `minutes`: finish the whole schedule in so many, in fewer steps if this
      machine needs more for all of them. Ctrl-C saves and stops.
    - `monitor`: every so many steps, also log how gradients go back through time. `tensorboard`: also write RUN/tensorboard.
    - `progress`: `auto` (a bar in a terminal or notebook, quiet elsewhere), `lines` or `none`.
    - `folds`: cross-validation of a recipe that labels sequences: so many runs under one folder, each tested on a part of the
      data that it does not learn from. It gives a `Folds`: scores with their mean and spread. Called again with the same
      `out`, it goes on where it was stopped.
    - settings by name, dotted or bare: `cell="gru"`, `hidden_size=256`, `settings={"training.steps": 100}`.

    Started by `torchrun`, every process calls this and takes its share of the batch.

    ```python
    run = rc.train("tomita", steps=50, hidden_size=16)
    ```
    """
    how: dict[str, Any] = {"minutes": minutes, "monitor": monitor, "tensorboard": tensorboard, "progress": progress}
    if isinstance(recipe, Task):
        if data is not None or settings or named or folds is not None:
            raise OptionError("a task is configured already: give data and settings when you make it.")
        task = recipe
    else:
        chosen = _chosen(recipe)
        if isinstance(settings, str):
            settings = [settings]
        if isinstance(named.get("cell"), Cell):
            raise OptionError(
                "cell is named in a recipe, so that the run can be opened again: give its name, or 'FILE.py:NAME' for your own."
            )
        if named and settings is not None and not isinstance(settings, Mapping):
            raise OptionError("give settings as KEY=VALUE texts, or by name: not both.")
        changes = (
            settings if settings is not None and not isinstance(settings, Mapping) else {**(settings or {}), **named}
        )
        if folds is not None:

            def train_one(task: Task[Any] | None, path: Path) -> Run:
                share = how | {"minutes": None if minutes is None else minutes / folds}
                return resume(open_run(path), **share) if task is None else train(task, out=path, **share)

            return train_folds(chosen, folds, changes, data, out, train_one)
        task = chosen.configure(changes, data)
    with join(task.settings.device) as task.ranks:
        return train_run(task, None, out=out, **how)


def _chosen(recipe: Any) -> Recipe:
    if isinstance(recipe, str):
        return find_recipe(recipe)
    if isinstance(recipe, Recipe):
        return recipe
    raise OptionError(f"recipe must be a name, a recipe or a task; got {type(recipe).__name__}. See rc.RECIPES.")


def resume(run: Run, **options: Any) -> Run:
    """Go on with a run; options as for `train`."""
    if run.folder.recipe.get("name") == "fit":
        raise OptionError(f"this run is of a module of your own: it goes on with rc.fit(..., out={str(run.path)!r}).")
    with join(run.settings.device) as ranks:
        run.task = open_task(run.folder, ranks)
        return train_run(run.task, run, **options)


def open_run(
    path: PathLike,
    *,
    device: str = "cpu",
    model: nn.Module | None = None,
    trust: bool = False,
    strict: bool = False,
    notice: Callable[[str], None] | None = None,
) -> Run:
    """The run in a folder, which may be a stranger's: none of their code is run.

    - `device`: where its model runs. `model`: of a run of `fit`, the module that its weights are loaded into.
    - `trust`: the folder is yours. Links may lead out of it, and a cell or label in a Python file may be run where the folder
      does not keep its equations.
    - `strict`: whatever is damaged is an error. Otherwise it is named in a `RunWarning` (or to `notice`) and in `run.damaged`,
      with what is used instead.

    ```python
    run = rc.train("tomita", steps=20)
    rc.open(run.path).evaluate()
    ```
    """
    folder = RunFolder.open(Path(path), trust=trust, strict=strict)
    folder.notice = notice or warn
    folder.look_over()
    if folder.recipe.get("name") != "fit":
        if model is not None:
            name = folder.recipe.get("name")
            raise OptionError(f"model is for runs of rc.fit; {path} is of {name}, which makes its own. Leave it out.")
        return Run(folder, device=device)
    return Run(folder, FitTask(from_dict(FitSettings, folder.recipe), model=model), device)


def runs(folder: PathLike = "runs", *, notice: Callable[[str], None] | None = None) -> list[Run]:
    """The runs of a folder, the one that was started last first. Run folders that cannot be opened are left out, with a
    `RunWarning` (or a word to `notice`) that says why.

    ```python
    [(run.path, run.metrics[-1]) for run in rc.runs("runs")]
    ```
    """
    folder = Path(folder)
    try:
        found = "" if folder.is_dir() else "a file" if folder.exists() else "not there"
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(f"{str(folder)[:200]!r} cannot be read: {why}.") from error
    if found:
        raise RunError(
            f"{folder} is {found}; a folder with runs is asked for. Name one, or train first: recurra train."
        )
    listed = list_runs(folder, notice or warn)
    for each in listed:
        each.notice = notice
    return [Run(each) for each in listed]


open = open_run
"""`rc.open`."""
