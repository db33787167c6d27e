"""The recipes by name, and the way from a run folder's recipe to its task."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from recurra.errors import OptionError, RunError, choose_from
from recurra.runs.folder import RunFolder
from recurra.tasks.kept import check_kept
from recurra.tasks.own_cells import open_cells
from recurra.tasks.recipe import RECIPES, Recipe
from recurra.tasks.settings import from_dict
from recurra.tasks.task import Task
from recurra.training.distributed import Ranks

KINDS = (
    *("texts", "lengths", "fixed_window", "conditioned", "translate"),
    *("classify", "tag", "signal_noise", "events", "machine_log", "forecast"),
    *("piano_roll", "memory", "formal", "jordan", "jordan_tags", "tree", "feedforward", "regression", "reservoir"),
)
"""The files of tasks, in the order in which their recipes are listed."""
for kind in KINDS:
    import_module(f"recurra.tasks.{kind}")  # its recipes register themselves
RECIPES = dict(sorted(RECIPES.items(), key=lambda item: KINDS.index(item[1].make.__module__.rpartition(".")[2])))

__all__ = ["RECIPES", "find_recipe", "make_task", "open_task"]


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    return RECIPES[choose_from("recipe", name, RECIPES)]


def make_task(settings: Any, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None) -> Any:
    """The task that settings describe."""
    return find_recipe(settings.name).task(settings, ranks, vocabulary)


def open_task(folder: RunFolder, ranks: Ranks = Ranks()) -> Task[Any]:
    """The task of a run folder."""
    name = folder.recipe.get("name")
    if not isinstance(name, str) or name not in RECIPES:
        raise RunError(f"{folder.path}: recipe.json is of {str(name)[:40]!r}, which is none of {', '.join(RECIPES)}.")
    try:
        settings = from_dict(type(RECIPES[name].settings), folder.resolved_recipe())
    except OptionError as error:
        raise RunError(f"{folder.path}: recipe.json: {str(error)[:300]}") from error
    if folder.vocabulary is not None:
        check_kept(folder.vocabulary, RECIPES[name].task.keeps, f"{folder.path}: vocabulary.json")
    task: Task[Any] = make_task(settings, ranks, folder.vocabulary)
    task.cells = open_cells(folder, settings)
    if folder.vocabulary is None and type(task).make_vocabulary is not Task.make_vocabulary:
        raise RunError(f"{folder.path} has no vocabulary.json, which a run of {name} keeps: it is not whole.")
    return task
