"""What recipes reach with nothing but their defaults, on kinds of synthetic data, beside their baselines and a specialist."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from recurra.benchmarks.default_kinds import (
    exponential_smoothing,
    plain_name,
    plain_script,
    write_events,
    write_series,
)
from recurra.benchmarks.timing import Say, quiet
from recurra.data.in_memory import write_data
from recurra.data.labelled_tasks import SERIES_KINDS, labelled_series
from recurra.data.log_tasks import LOGS
from recurra.data.series_kinds import SERIES
from recurra.errors import choose_from
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
    specialist: Callable[[], Found] | None = None
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
    recipe: str = "classify", kinds: list[str] | None = None, seed: int = 0, say: Say = quiet
) -> Defaults:
    """Train the recipe's defaults on each kind and evaluate them on test data.

    - `kinds`: which; all of the recipe if left out. `seed`: of the run; the data is always the same.
    """
    known = KINDS[choose_from("recipe", recipe, KINDS)]()
    chosen = [choose_from("kind", each, known) for each in kinds or known]
    rows = []
    for name in chosen:
        kind = known[name]
        with tempfile.TemporaryDirectory() as folder:
            settings = [*kind.write(Path(folder)), f"seed={seed}"]
            began = time.monotonic()
            run = train(find_recipe(recipe), settings=settings, out=Path(folder) / "run", progress="none")
            seconds = time.monotonic() - began
            scores = scores_by_role(run.evaluate(), run.task.called)
        began = time.monotonic()
        specialist = {} if kind.specialist is None else kind.specialist()
        taken = time.monotonic() - began if specialist else 0.0
        found = {kind.named(row): each[kind.metric] for row, each in scores.items() if kind.metric in each}
        rows.append(KindRow(name, kind.about, found, seconds, specialist, taken))
        say(f"{name}: {found[RUN]:.3f} in {seconds:.0f} s")
    return Defaults(recipe, known[chosen[0]].metric, tuple(rows))


# -- kinds of data, by recipe ---------------------------------------------------------------------------------------------


def _classify() -> dict[str, Kind]:
    made = {}
    for name, kind in SERIES_KINDS.items():
        low, high = kind.length
        lengths = f"{low}" if low == high else f"{low}–{high}"
        about = f"{kind.about}: {kind.train} × {lengths} × {kind.channels}, {kind.classes} classes"
        made[name] = Kind(about, "accuracy", True, _series_writer(name), _rocket(name))
    return made


def _series_writer(name: str) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        parts = {"path": labelled_series(name), "test_path": labelled_series(name, TESTED, seed=1)}
        settings = []
        for key, data in parts.items():
            (folder / key).mkdir()
            settings.append(f"data.{key}={write_data('labelled', data, folder / key)}")
        return settings

    return write


def _rocket(name: str) -> Callable[[], Found] | None:
    """The random-kernel classifiers of aeon; shorter series are padded with zeros, as it reads one length."""
    if find_spec("aeon") is None:
        return None

    def compare() -> Found:
        kernels: Any = import_module("aeon.classification.convolution_based")
        (train_series, labels), (series, true) = labelled_series(name), labelled_series(name, TESTED, seed=1)
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


def _events() -> dict[str, Kind]:
    return {
        name: Kind(_about(how), "accuracy", True, write_events(name), plain_script(name), plain_name)
        for name, how in LOGS.items()
    }


def _forecast() -> dict[str, Kind]:
    return {
        name: Kind(_about(how), "mae", False, write_series(name), exponential_smoothing(name), plain_name)
        for name, how in SERIES.items()
    }


def _about(how: dict[str, Any]) -> str:
    """The arguments of a generator."""
    return ", ".join(f"{key} {value}" for key, value in how.items())


KINDS: dict[str, Callable[[], dict[str, Kind]]] = {"classify": _classify, "events": _events, "forecast": _forecast}
"""For each recipe its kinds of data, by name. A recipe is added by a function that makes them."""
