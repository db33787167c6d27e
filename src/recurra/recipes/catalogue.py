"""The recipes by name, and the way from a recipe or a run folder to its experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.errors import RunError, choose_from
from recurra.recipes.base import Experiment, Model, Recipe
from recurra.recipes.classify import (
    Classify,
    ClassifyModel,
    ClassifyRecipe,
    LabelledData,
    LabelModel,
    LabelRecipe,
    Tag,
    TagRecipe,
)
from recurra.recipes.language import Data, Language, LanguageRecipe
from recurra.recipes.memory import Memory, MemoryData, MemoryRecipe
from recurra.recipes.reader import from_dict
from recurra.runs.folder import RunFolder
from recurra.training.distributed import Ranks
from recurra.training.loop import Training


@dataclass(frozen=True)
class Entry:
    recipe: Recipe
    about: str


RECIPES: dict[str, Entry] = {
    "python-source": Entry(
        LanguageRecipe(
            name="python-source",
            data=Data(tokens="char", min_count=100, limit=700_000),
            model=Model(cell="lstm_coupled", hidden_size=256, embedding_size=64, dropout=0.15),
            training=Training(
                steps=3000,
                batch_size=16,
                truncation="every:64",
                learning_rate=0.006,
                l2=0.1,
                average="ema:0.99",
                validate_every=1500,
                save_every=500,
            ),
        ),
        "the source of Python's standard library on this machine; about a minute, needs no download",
    ),
    "text": Entry(
        LanguageRecipe(
            name="text",
            data=Data(tokens="char", valid=0.1, test=0.0),
            model=Model(cell="lstm", hidden_size=320, embedding_size=64, dropout=0.15),
            training=Training(
                steps=4600,
                batch_size=16,
                truncation="every:128",
                learning_rate=6e-3,
                average="ema:0.995",
                validate_every=920,
                save_every=250,
            ),
        ),
        "any text file: data.path=FILE",
    ),
    "names": Entry(
        LanguageRecipe(
            name="names",
            data=Data(tokens="char", sequences=True, valid=0.1, test=0.1),
            model=Model(cell="lstm", hidden_size=320, embedding_size=32, dropout=0.4, input_dropout=0.1),
            training=Training(
                steps=8000,
                batch_size=64,
                truncation="none",
                learning_rate=2e-3,
                average="ema:0.999",
                validate_every=1000,
                save_every=500,
            ),
        ),
        "any file with one short sequence per line: data.path=FILE",
    ),
    "long-memory": Entry(
        MemoryRecipe(
            name="long-memory",
            data=MemoryData(task="adding", length=200),
            model=Model(cell="gru", hidden_size=64),
            training=Training(
                steps=2000, batch_size=64, truncation="none", learning_rate=5e-3, validate_every=200, save_every=200
            ),
        ),
        "the adding problem: the sum of two numbers far back; data.length says how far",
    ),
    "long-memory-copying": Entry(
        MemoryRecipe(
            name="long-memory-copying",
            data=MemoryData(task="copying", length=100),
            model=Model(cell="orthogonal", hidden_size=128, embedding_size=10),
            training=Training(
                steps=1000, batch_size=64, truncation="none", learning_rate=3e-3, validate_every=250, save_every=250
            ),
        ),
        "copying memory: ten symbols, a wait of data.length steps, and the same symbols again",
    ),
    "flip-flop": Entry(
        MemoryRecipe(
            name="flip-flop",
            data=MemoryData(task="flip-flop", length=64),
            model=Model(cell="gru", hidden_size=24),
            training=Training(
                steps=2000, batch_size=64, truncation="none", learning_rate=5e-3, validate_every=500, save_every=500
            ),
        ),
        "three bits, each the sign of its last pulse: a memory whose attractors can be counted",
    ),
    "washing-machine": Entry(
        MemoryRecipe(
            name="washing-machine",
            data=MemoryData(task="washing-machine", length=64),
            model=Model(cell="gru", hidden_size=32, embedding_size=16),
            training=Training(
                steps=3000, batch_size=64, truncation="none", learning_rate=5e-3, validate_every=500, save_every=500
            ),
        ),
        "which state a washing machine is in, from its triggers alone, a child's button presses among them",
    ),
    "classify": Entry(
        ClassifyRecipe(
            name="classify",
            model=ClassifyModel(cell="gru", hidden_size=64, dropout=0.5, input_dropout=0.0, noise=0.3),
            training=Training(
                steps=1000,
                batch_size=32,
                truncation="none",
                l2=0.1,
                average="ema:0.99",
                validate_every=50,
                save_every=500,
            ),
        ),
        "any file of sequences with a label each, text or numbers: data.path=FILE",
    ),
    "tag": Entry(
        TagRecipe(
            name="tag",
            data=LabelledData(min_count=2),
            model=LabelModel(cell="lstm", hidden_size=128, embedding_size=64, dropout=0.5, input_dropout=0.2),
            training=Training(
                steps=2000,
                batch_size=32,
                truncation="none",
                l2=0.01,
                average="ema:0.99",
                validate_every=100,
                save_every=500,
            ),
        ),
        "any file of sequences with a label for each step: data.path=FILE",
    ),
}

EXPERIMENTS: dict[type[Recipe], Any] = {
    LanguageRecipe: Language,
    MemoryRecipe: Memory,
    ClassifyRecipe: Classify,
    TagRecipe: Tag,
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


def open_run(path: Path, which: str = "best") -> tuple[RunFolder, Experiment[Any], Any]:
    """A trained model from its folder: the best checkpoint, or the last one where no best was kept."""
    folder = RunFolder.open(path)
    recipe = read_recipe(folder)
    if folder.vocabulary is None and isinstance(recipe, LanguageRecipe | LabelRecipe):
        raise RunError(f"{path} has no vocabulary.json, without which its model reads nothing.")
    experiment = begin(recipe, vocabulary=folder.vocabulary)
    checkpoint = folder.load(which if folder.has(which) else "last")
    return folder, experiment, experiment.trained(checkpoint, str(path))
