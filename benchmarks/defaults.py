"""What recipes reach with nothing but their defaults, on kinds of synthetic data, beside their baselines and a specialist."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from recurra.benchmarks import language_kinds, plain_scripts
from recurra.benchmarks.default_kinds import (
    SEED,
    Specialist,
    plain_script,
    statistical_models,
    write_events,
    write_series,
)
from recurra.benchmarks.timing import Say, quiet
from recurra.data.in_memory import write_data
from recurra.data.labelled_tasks import SERIES_KINDS, labelled_series
from recurra.data.log_tasks import LOGS
from recurra.data.reviews import reviews
from recurra.data.series_kinds import SERIES
from recurra.data.trees import write_expression
from recurra.errors import OptionError, choose_from
from recurra.models.autoregression import kind_of
from recurra.results import Result, Table
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.folds import RUN, scores_by_role
from recurra.tasks.train import train

TESTED = 300
"""How many test series of a kind there are."""

Found = dict[str, float]
"""A score for each row: the run, the network alone, baselines; or what a specialist reaches."""


@dataclass(frozen=True)
class Kind:
    """A kind of data for a recipe.

    - `about`: what it is. `metric`: what is compared; `higher`: whether more is better.
    - `write`: files in a folder, to the settings that read them. `specialist`: another tool's scores, where it is installed.
    """

    about: str
    metric: str
    higher: bool
    write: Callable[[Path], list[str]]
    specialist: Specialist | None = None
    named: Callable[[str], str] = str
    """From the name of a row to its column."""


@dataclass(frozen=True)
class KindRow:
    """What was reached on a kind; `seconds` of training, `specialist_seconds` of all that the specialist does."""

    kind: str
    about: str
    scores: Found
    seconds: float
    specialist: Found
    specialist_seconds: float


@dataclass(frozen=True)
class Defaults(Result):
    """A recipe's defaults on every kind of its data."""

    recipe: str
    metric: str
    rows: tuple[KindRow, ...]

    def table(self) -> Table:
        names = list(dict.fromkeys(name for row in self.rows for name in (*row.scores, *row.specialist)))
        cells = []
        for row in self.rows:
            found = row.scores | row.specialist
            scores = [f"{found[name]:.3f}" if name in found else "" for name in names]
            cells.append([row.kind, row.about, *scores, f"{row.seconds:.0f}", f"{row.specialist_seconds:.0f}"])
        title = f"{self.recipe} with its defaults: {self.metric} on test data"
        return Table(["kind", "", *names, "seconds", "specialist's"], cells, title)


def bench_defaults(
    recipe: str = "classify",
    kinds: list[str] | None = None,
    seed: int = 0,
    say: Say = quiet,
    data_seed: int = 0,
    draws: int = 1,
) -> Defaults:
    """Train the recipe's defaults on each kind and evaluate them on test data.

    - `kinds`: which; all of the recipe if left out. `seed`: of the run. `data_seed`: of the data: another
      one than 0 gives data that defaults were not chosen by; `text` and `words` always read the same text. `draws`:
      of so many data seeds, this one and those after it, the means are given.
    """
    kinds_of = KINDS[choose_from("recipe", recipe, KINDS)]
    for name, value, least in (("data_seed", data_seed, 0), ("draws", draws, 1)):
        if value < least:
            raise OptionError(f"{name} is a number of at least {least}; got {value}.")
    every = [kinds_of(each) for each in range(data_seed, data_seed + draws)]
    known = every[0]
    needed = SPECIALISTS.get(recipe)
    if needed is not None and find_spec(needed) is None:
        say(f"{needed}, whose models would stand beside, is not installed: they are left out")
    chosen = [choose_from("kind", each, known) for each in kinds or known]
    rows = []
    for name in chosen:
        drawn = [_train(recipe, name, kinds[name], seed) for kinds in every]
        rows.append(
            replace(
                drawn[0],
                scores=_means([each.scores for each in drawn]),
                seconds=mean(each.seconds for each in drawn),
                specialist=_means([each.specialist for each in drawn]),
                specialist_seconds=mean(each.specialist_seconds for each in drawn),
            )
        )
        say(f"{name}: {rows[-1].scores[RUN]:.3f} in {rows[-1].seconds:.0f} s")
    return Defaults(recipe, known[chosen[0]].metric, tuple(rows))


def _train(recipe: str, name: str, kind: Kind, seed: int) -> KindRow:
    with tempfile.TemporaryDirectory() as folder:
        settings = [*kind.write(Path(folder)), f"seed={seed}"]
        began = time.monotonic()
        run = train(find_recipe(recipe), settings=settings, out=Path(folder) / "run", progress="none")
        seconds = time.monotonic() - began
        scores = scores_by_role(run.evaluate(), run.task.called)
        began = time.monotonic()
        specialist = {} if kind.specialist is None else kind.specialist(run, seconds)
        taken = time.monotonic() - began if specialist else 0.0
    found = {kind.named(row): each[kind.metric] for row, each in scores.items() if kind.metric in each}
    return KindRow(name, kind.about, found, seconds, specialist, taken)


def _means(every: list[Found]) -> Found:
    """Of the rows that all have."""
    return {name: mean(each[name] for each in every) for name in every[0] if all(name in each for each in every)}


# -- kinds of data, by recipe ---------------------------------------------------------------------------------------------


def _classify(data_seed: int) -> dict[str, Kind]:
    made = {}
    for name, kind in SERIES_KINDS.items():
        low, high = kind.length
        lengths = f"{low}" if low == high else f"{low}–{high}"
        about = f"{kind.about}: {kind.train} × {lengths} × {kind.channels}, {kind.classes} classes"
        made[name] = Kind(about, "accuracy", True, _series_writer(name, data_seed), _rocket(name, data_seed))
    return made


def _series_parts(name: str, data_seed: int) -> tuple[tuple[list[Any], list[str]], tuple[list[Any], list[str]]]:
    """Series to learn from, and to test with: no two seeds share one."""
    return labelled_series(name, seed=2 * data_seed), labelled_series(name, TESTED, seed=2 * data_seed + 1)


def _series_writer(name: str, data_seed: int) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        parts = dict(zip(("path", "test_path"), _series_parts(name, data_seed), strict=True))
        settings = []
        for key, data in parts.items():
            (folder / key).mkdir()
            settings.append(f"data.{key}={write_data('labelled', data, folder / key)}")
        return settings

    return write


def _rocket(name: str, data_seed: int) -> Specialist | None:
    """The random-kernel classifiers of aeon; shorter series are padded with zeros, as it reads one length."""
    if find_spec(SPECIALISTS["classify"]) is None:
        return None

    def compare(_run: Any, _seconds: float) -> Found:
        kernels: Any = import_module("aeon.classification.convolution_based")
        (train_series, labels), (series, true) = _series_parts(name, data_seed)
        longest = max(map(len, [*train_series, *series]))
        x, given = (
            np.stack([np.pad(each, ((0, longest - len(each)), (0, 0))).T for each in part])
            for part in (train_series, series)
        )
        found = {}
        for called, kind in (("MiniRocket", kernels.MiniRocketClassifier), ("Rocket", kernels.RocketClassifier)):
            model = kind(random_state=0, n_jobs=1).fit(x, np.array(labels))
            found[called] = float((model.predict(given) == np.array(true)).mean())
        return found

    return compare


def _events(data_seed: int) -> dict[str, Kind]:
    return {
        name: Kind(_about(how), "accuracy", True, write_events(name, data_seed), plain_script(name, data_seed), kind_of)
        for name, how in LOGS.items()
    }


def _forecast(data_seed: int) -> dict[str, Kind]:
    return {
        name: Kind(
            _about(how), "mae", False, write_series(name, data_seed), statistical_models(name, data_seed), kind_of
        )
        for name, how in SERIES.items()
    }


def _text(data_seed: int) -> dict[str, Kind]:
    return {
        "documentation": _written(
            "the text of Python's help()",
            "nats",
            "text",
            [language_kinds.documentation()],
            plain_scripts.plain_language,
        )
    }


def _names(data_seed: int) -> dict[str, Kind]:
    made = {}
    for name, count in (("few identifiers", 1000), ("identifiers", 10_000)):
        data = language_kinds.identifiers(count, data_seed)
        about = f"{len(data):,} names in Python's library"
        made[name] = _written(about, "nats", "text", data, plain_scripts.plain_language, lines=True)
    return made


def _translate(data_seed: int) -> dict[str, Kind]:
    made = {}
    for name, count, words in (("few pairs", 1000, 60), ("pairs", 5000, 300), ("many words", 10_000, 3000)):
        data = language_kinds.languages(count, SEED + data_seed, words=words)
        about = f"{count:,} sentences of two toy languages, {words:,} words"
        made[name] = _written(about, "nats", "pairs", data, plain_scripts.plain_translation)
    return made


def _tag(data_seed: int) -> dict[str, Kind]:
    made = {}
    for name, count in (("few sentences", 200), ("sentences", 3000)):
        data = language_kinds.tagged(count, SEED + data_seed)
        made[name] = _written(
            f"{count:,} of 8 tags", "accuracy", "labelled", data, plain_scripts.plain_tagger, per_step=True
        )
    return made


def _tree(data_seed: int) -> dict[str, Kind]:
    compare = plain_scripts.bag_of_spans if find_spec(SPECIALISTS["tree"]) is not None else None
    made = {}
    for name, count, classes in (("few reviews", 300, 5), ("reviews", 3000, 5), ("two classes", 1500, 2)):
        data = [write_expression(each) for each in reviews(count, seed=SEED + data_seed, classes=classes)]
        made[name] = _written(f"{count:,}, {classes} classes at every node", "accuracy", "trees", data, compare)
    return made


def _piano_roll(data_seed: int) -> dict[str, Kind]:
    made = {}
    for name, count in (("few pieces", 40), ("pieces", 300)):
        data = language_kinds.music(count, SEED + data_seed)
        made[name] = _written(
            f"{count} of synthetic chords and a tune", "nats", "rolls", data, plain_scripts.plain_rolls
        )
    return made


def _written(about: str, metric: str, form: str, data: Any, compare: Specialist | None, **how: bool) -> Kind:
    """A kind whose data is at hand, to be written in one of the forms that recipes read."""

    def write(folder: Path) -> list[str]:
        return [f"data.path={write_data(form, data, folder, **how)}"]

    return Kind(about, metric, metric == "accuracy", write, compare, kind_of)


def _about(how: dict[str, Any]) -> str:
    """The arguments of a generator."""
    return ", ".join(f"{key} {value}" for key, value in how.items())


KINDS: dict[str, Callable[[int], dict[str, Kind]]] = {
    "classify": _classify,
    "events": _events,
    "forecast": _forecast,
    "names": _names,
    "piano-roll": _piano_roll,
    "tag": _tag,
    "text": _text,
    "translate": _translate,
    "tree": _tree,
    "words": _text,
}
"""For each recipe its kinds of data, by name, from a seed. A recipe is added by a function that makes them."""
SPECIALISTS = {"classify": "aeon", "forecast": "statsforecast", "tree": "sklearn"}
"""The package that a recipe is compared with, where it is installed; others are compared with a script."""
