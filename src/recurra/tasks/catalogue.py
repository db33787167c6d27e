"""The recipes by name, and the way from a recipe or a run folder to its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recurra.errors import RunError, choose_from
from recurra.runs.folder import RunFolder
from recurra.tasks import (
    classify,
    conditioned,
    events,
    feedforward,
    forecast,
    formal,
    jordan,
    language,
    machine_log,
    memory,
    piano_roll,
    reservoir,
    signal_noise,
    translate,
    tree,
)
from recurra.tasks.settings import from_dict
from recurra.tasks.task import Recipe, Settings, Task
from recurra.training.distributed import Ranks

RECIPES: dict[str, Recipe] = {
    name: preset
    for kind in (
        language,
        conditioned,
        translate,
        classify,
        signal_noise,
        events,
        machine_log,
        forecast,
        piano_roll,
        memory,
        formal,
        jordan,
        tree,
        feedforward,
        reservoir,
    )
    for name, preset in kind.RECIPES.items()
}

TASKS_OF: dict[type[Settings], Any] = {
    language.LanguageSettings: language.LanguageTask,
    conditioned.ConditionedSettings: conditioned.ConditionedTask,
    translate.TranslateSettings: translate.TranslationTask,
    classify.ClassifySettings: classify.ClassificationTask,
    classify.TagSettings: classify.TaggingTask,
    signal_noise.SignalSettings: signal_noise.SignalNoiseTask,
    events.EventSettings: events.EventTask,
    machine_log.MachineLogSettings: machine_log.MachineLogTask,
    forecast.ForecastSettings: forecast.SeriesTask,
    piano_roll.RollSettings: piano_roll.PianoRollTask,
    memory.MemorySettings: memory.MemoryTask,
    formal.FormalSettings: formal.FormalTask,
    jordan.JordanSettings: jordan.JordanTask,
    tree.TreeSettings: tree.TreeTask,
    feedforward.FeedforwardSettings: feedforward.FeedforwardTask,
    reservoir.ReservoirSettings: reservoir.ReservoirTask,
}


def find_recipe(name: str) -> Settings:
    return RECIPES[choose_from("recipe", name, RECIPES)].recipe


def begin(recipe: Settings, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None) -> Task[Any]:
    """The task that a recipe describes."""
    made: Task[Any] = TASKS_OF[type(recipe)](recipe, ranks, vocabulary)
    return made


def read_recipe(folder: RunFolder) -> Settings:
    """The recipe of a run folder."""
    name = folder.recipe.get("name")
    if name not in RECIPES:
        raise RunError(f"{folder.path}: recipe.json is of {name!r}, which is none of {', '.join(RECIPES)}.")
    return from_dict(type(RECIPES[name].recipe), folder.recipe)


def open_task(folder: RunFolder) -> Task[Any]:
    """The task of a run folder."""
    recipe = read_recipe(folder)
    if folder.vocabulary is None and TASKS_OF[type(recipe)].keeps_vocabulary:
        raise RunError(f"{folder.path} has no vocabulary.json, which a run of {recipe.name} keeps: it is not whole.")
    return begin(recipe, vocabulary=folder.vocabulary)


def open_run(path: Path, which: str = "best") -> tuple[RunFolder, Task[Any], Any]:
    """A trained model from its folder: the best checkpoint, or the last one where no best was kept."""
    folder = RunFolder.open(path)
    task = open_task(folder)
    checkpoint = folder.load(which if folder.has(which) else "last")
    return folder, task, task.trained(checkpoint, str(path))
