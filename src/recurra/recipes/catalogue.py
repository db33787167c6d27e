"""The recipes by name, and the way from a recipe or a run folder to its experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recurra.errors import RunError, choose_from
from recurra.recipes import (
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
from recurra.recipes.base import Experiment, Preset, Recipe
from recurra.recipes.reader import from_dict
from recurra.runs.folder import RunFolder
from recurra.training.distributed import Ranks

RECIPES: dict[str, Preset] = {
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
    for name, preset in kind.PRESETS.items()
}

EXPERIMENTS: dict[type[Recipe], Any] = {
    language.LanguageRecipe: language.Language,
    conditioned.ConditionedRecipe: conditioned.Conditioned,
    translate.TranslateRecipe: translate.Translate,
    classify.ClassifyRecipe: classify.Classify,
    classify.TagRecipe: classify.Tag,
    signal_noise.SignalRecipe: signal_noise.SignalAndNoise,
    events.EventRecipe: events.Events,
    machine_log.MachineLogRecipe: machine_log.MachineLog,
    forecast.ForecastRecipe: forecast.Forecast,
    piano_roll.RollRecipe: piano_roll.PianoRoll,
    memory.MemoryRecipe: memory.Memory,
    formal.FormalRecipe: formal.Formal,
    jordan.JordanRecipe: jordan.Jordanian,
    tree.TreeRecipe: tree.TreeClassification,
    feedforward.FeedforwardRecipe: feedforward.Classification,
    reservoir.ReservoirRecipe: reservoir.Reservoir,
}


def find_recipe(name: str) -> Recipe:
    return RECIPES[choose_from("recipe", name, RECIPES)].recipe


def begin(recipe: Recipe, ranks: Ranks = Ranks(), vocabulary: dict[str, Any] | None = None) -> Experiment[Any]:
    """The experiment that a recipe describes."""
    made: Experiment[Any] = EXPERIMENTS[type(recipe)](recipe, ranks, vocabulary)
    return made


def read_recipe(folder: RunFolder) -> Recipe:
    """The recipe of a run folder."""
    name = folder.recipe.get("name")
    if name not in RECIPES:
        raise RunError(f"{folder.path}: recipe.json is of {name!r}, which is none of {', '.join(RECIPES)}.")
    return from_dict(type(RECIPES[name].recipe), folder.recipe)


def open_experiment(folder: RunFolder) -> Experiment[Any]:
    """The experiment of a run folder."""
    recipe = read_recipe(folder)
    if folder.vocabulary is None and EXPERIMENTS[type(recipe)].keeps_vocabulary:
        raise RunError(f"{folder.path} has no vocabulary.json, which a run of {recipe.name} keeps: it is not whole.")
    return begin(recipe, vocabulary=folder.vocabulary)


def open_run(path: Path, which: str = "best") -> tuple[RunFolder, Experiment[Any], Any]:
    """A trained model from its folder: the best checkpoint, or the last one where no best was kept."""
    folder = RunFolder.open(path)
    experiment = open_experiment(folder)
    checkpoint = folder.load(which if folder.has(which) else "last")
    return folder, experiment, experiment.trained(checkpoint, str(path))
