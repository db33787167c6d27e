"""What fuzzed files are given to: every reader, and the tasks that build on them; and what every outcome must be like."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import recurra.tasks.catalogue  # noqa: F401  every recipe registers itself
from recurra.analysis.column_labels import read_column
from recurra.data.events import read_log
from recurra.data.images import read_array, read_images
from recurra.data.labelled import How, read_labelled
from recurra.data.matlab import read_cells
from recurra.data.number_table import read_measured, read_table
from recurra.data.pairs import read_pairs
from recurra.data.rolls import read_rolls
from recurra.data.series import read_series, read_timed_series
from recurra.data.text import read_documents
from recurra.data.tokenizers import build_tokenizer
from recurra.data.trees import build_vocabulary, read_trees
from recurra.data.word_vectors import read_vectors
from recurra.errors import LONGEST, RecurraError
from recurra.tasks.conditioned import read_classes
from recurra.tasks.recipe import RECIPES
from tests.fuzz.files import FILES, WORDS

Read = Callable[[Path], Any]
TINY = {"model.hidden_size": 2, "training.batch_size": 2, "training.steps": 1, "engine": "eager"}
"""Settings under which a task is made and takes a step within milliseconds."""


def tokens(kind: str, path: Path) -> object:
    texts = [document.text for document in read_documents(path)]
    tokenizer = build_tokenizer(kind, texts, max_size=400 if kind == "bpe" else None)
    return [tokenizer.decode(tokenizer.encode(text)) for text in texts]


def trees(labels: str, path: Path) -> object:
    found = read_trees(path, labels)
    return build_vocabulary(found).plant(found).schedule


def clock(path: Path) -> object:
    found = read_timed_series(path)
    return found.clock and found.clock.after(30)


def images(path: Path) -> object:
    """With as many labels as there are images, where there are any."""
    if path.suffix == ".npz":
        return read_images(path)
    count = len(read_array(path))
    labels = path.with_name("labels.npy")
    np.save(labels, np.arange(count) % 2)
    return read_images(path, labels)


READS: dict[str, Read] = {
    "text": read_documents,
    **{f"{kind} tokens": partial(tokens, kind) for kind in ("byte", "char", "word", "bpe")},
    "labelled": read_labelled,
    "to predict": lambda path: read_labelled(path, How(labelled=False)),
    "tags": lambda path: read_labelled(path, How(per_step=True)),
    "pixels": lambda path: read_labelled(path, How(pixels=True, permute=True)),
    "series": read_series,
    "timed series": clock,
    "log": read_log,
    "pairs": read_pairs,
    **{f"trees, {labels}": partial(trees, labels) for labels in ("every", "root", "outer")},
    "rolls": read_rolls,
    "cells of MATLAB": read_cells,
    "table": read_table,
    "measured": read_measured,
    "images": images,
    "classes": read_classes,
    "labels of units": lambda path: read_column(f"{path}:tag=NOUN", ["the cat"]),
    "vectors of words": lambda path: read_vectors(path, WORDS),
}
"""Every reader, called with a path."""

TASKS = {
    "a.txt": ("text", "names"),
    "reviews.csv": ("classify",),
    "steps.csv": ("classify",),
    "a.jsonl": ("classify",),
    "a.ts": ("classify",),
    "a.npz": ("classify", "feedforward"),
    "a.conll": ("tag",),
    "series.csv": ("forecast", "reservoir"),
    "timed.csv": ("forecast",),
    "log.csv": ("events",),
    "log.xes": ("events",),
    "pairs.tsv": ("translate",),
    "trees.txt": ("tree",),
    "rolls.json": ("piano-roll",),
    "table.csv": ("feedforward",),
    "classes.tsv": ("conditioned",),
}
"""Recipes that read a file of this kind."""
FURTHER: dict[str, dict[str, Any]] = {
    "reservoir": {"training.washout": 2, "training.horizon": 1, "training.starts": 1},
    "forecast": {"backtest.horizon": 2, "backtest.samples": 2, "data.window": 4},
}


def make_task(name: str, path: Path) -> Any:
    recipe = RECIPES[name]
    known = {f"{group}.{key}" for group in ("model", "training") for key in vars(getattr(recipe.settings, group))}
    if name not in ("tree", "feedforward"):
        known.add("engine")
    small = {key: value for key, value in TINY.items() if key in known}
    return recipe.configure({**small, **FURTHER.get(name, {})}, str(path))


def train(name: str, path: Path) -> None:
    """What `recurra train` does up to the first step, without a folder."""
    task = make_task(name, path)
    _ = task.vocabulary, task.about_data
    for _event, _ in zip(task.trainer().events(), range(2), strict=False):
        pass


@cache
def trained(name: str, file: str, folder: Path) -> tuple[Any, Any]:
    """A task of a sound file, and a model for it, untrained."""
    path = folder / f"sound-{file}"
    for seed in range(50):
        path.write_bytes(FILES[file](random.Random(seed)))
        try:
            task = make_task(name, path)
            _ = task.vocabulary
            return task, task.untrained_model()
        except RecurraError:
            continue
    raise AssertionError(f"no sound file {file} for {name}")


def use(name: str, file: str, path: Path) -> None:
    """What `evaluate`, `predict`, `flag` and `forecast` do with another file."""
    task, model = trained(name, file, path.parent)
    task.evaluate(model, str(path), baselines=False)
    if hasattr(task, "predict"):
        task.predict(model, str(path))


def targets_for(file: str) -> dict[str, Read]:
    """Everything that a file of this name can be given to."""
    made = dict(READS)
    for name in TASKS.get(file, ()):
        made[f"train {name}"] = partial(train, name)
        made[f"use {name}"] = partial(use, name, file)
    return made


class Unsound(AssertionError):
    """An error message that is not one short printable line."""


@contextmanager
def outcome(longest: int = LONGEST) -> Iterator[list[str]]:
    """Data, or an error of the right kind, whose message is put into the list. Anything else goes through."""
    said: list[str] = []
    try:
        with torch.random.fork_rng(devices=[]):
            yield said
    except RecurraError as error:
        said.append(str(error))
        if not str(error).isprintable() or len(str(error)) > longest:
            raise Unsound(f"{len(str(error))} characters: {error!s:.400}") from error
