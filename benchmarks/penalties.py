"""What L1, L2 and tree regularization do to a network's score and to the size of the tree that is distilled from it."""

from __future__ import annotations

import copy
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from recurra.analysis.penalties import PenaltyPoint, PenaltySweep
from recurra.benchmarks.timing import Say, quiet
from recurra.models.decision_tree import find_grower
from recurra.results import Result, Table
from recurra.runs.disk import replace_file, to_json
from recurra.tasks.capabilities import ClassifiesSteps, find
from recurra.tasks.catalogue import make_task
from recurra.tasks.mimic import TreeScores, grow, held_out, score_name, score_tree
from recurra.tasks.settings import override
from recurra.tasks.signal_noise import SignalNoiseTask
from recurra.tasks.task import Settings
from recurra.training.events import Measured, Validated

TOLERANCE = 0.02
"""How much of the score a simpler network may cost."""


@dataclass(frozen=True)
class Trained:
    """One network of a sweep: which penalty and how strong, and how it and its tree do.

    - `pruned`: on test data, with the tree after reduced-error pruning on validation data.
    - `surrogate_error`: by how many questions the surrogate was wrong about weights that it had not seen, the mean over the
      second half of the training; `None` where there was no surrogate.
    """

    penalty: str
    strength: float
    seed: int
    valid: TreeScores
    test: TreeScores
    pruned: TreeScores
    surrogate_error: float | None
    seconds: float


@dataclass(frozen=True)
class Point:
    """One penalty at one strength, over all seeds: means, and on test data the spread between seeds."""

    penalty: str
    strength: float
    seeds: int
    valid_score: float
    valid_path_length: float
    fewest_leaves: int
    test: dict[str, float]
    spread: dict[str, float]
    pruned: dict[str, float]
    surrogate_error: float | None


COLUMNS: dict[str, Callable[[Point], str]] = {
    "path length": lambda point: f"{point.test['path_length']:.2f}",
    "leaves": lambda point: f"{point.test['leaves']:.1f}",
    "fidelity": lambda point: f"{point.test['fidelity']:.3f}",
    "accuracy": lambda point: f"{point.test['accuracy']:.4f}",
    "tree accuracy": lambda point: f"{point.test['tree_accuracy']:.4f}",
    "pruned path": lambda point: f"{point.pruned['path_length']:.2f}",
    "pruned fidelity": lambda point: f"{point.pruned['fidelity']:.3f}",
    "surrogate error": lambda point: "" if point.surrogate_error is None else f"{point.surrogate_error:.2f}",
}
"""What the table of a sweep says of a point, after its penalty, strength and score."""


@dataclass(frozen=True)
class PenaltyBenchmark(Result):
    """All penalties at all strengths with all seeds.

    - `score`: the name of what networks are compared by. `best_possible`: that of the Bayes-optimal model, where it is known.
    - `chosen`: of each penalty, the strength that `choose` takes.
    """

    recipe: str
    score: str
    best_possible: float | None
    chosen: dict[str, float]
    points: tuple[Point, ...]
    runs: tuple[Trained, ...]

    def is_chosen(self, point: Point) -> bool:
        return self.chosen.get(point.penalty) == point.strength

    def table(self) -> Table:
        rows = [
            [
                *(point.penalty, f"{point.strength:g}", "*" if self.is_chosen(point) else ""),
                *(f"{point.test['score']:.4f}", *(write(point) for write in COLUMNS.values())),
            ]
            for point in self.points
        ]
        title = f"{self.recipe}, test data, the mean of {self.points[0].seeds} seeds"
        return Table(["penalty", "strength", "chosen", self.score, *COLUMNS], rows, title)

    def __str__(self) -> str:
        best = "" if self.best_possible is None else f"\nbest possible (Bayes): {self.best_possible:.4f}"
        return f"{self.table()}{best}"

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """The score over the path length."""
        points = [
            PenaltyPoint(
                *(point.penalty, point.strength),
                *(point.test["path_length"], point.spread["path_length"]),
                *(point.test["score"], point.spread["score"]),
                self.is_chosen(point),
            )
            for point in self.points
        ]
        return PenaltySweep(points, self.score, self.best_possible).plot(file, **options)

    def save(self, folder: Path) -> None:
        """`penalties` as pictures, `.json` and `.csv`."""
        table = self.table()
        lines = [",".join(row) for row in [table.columns, *table.rows]]
        self.plot(folder / "penalties")
        replace_file(folder / "penalties.json", to_json(self.to_json(), "penalties.json", pretty=True))
        replace_file(folder / "penalties.csv", "\n".join([*lines, ""]).encode())


def sweep_penalties(
    recipe: Settings,
    strengths: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    workers: int = 1,
    say: Say = quiet,
) -> PenaltyBenchmark:
    """Train a network without a penalty, and one for each penalty (`l1`, `l2`, `tree`) and strength; with every seed."""
    find_grower()  # a missing extra is reported before anything is trained
    score = score_name(len(find(make_task(recipe), ClassifiesSteps, "a sweep of penalties").steps("valid").classes))
    off = [f"training.{name}=0" for name in ("l1", "l2", "tree")]
    plans = [("none", 0.0), *((name, strength) for name, every in strengths.items() for strength in every)]
    jobs = [
        (override(recipe, [*off, *_on(penalty, strength), f"seed={seed}"]), penalty, strength)
        for seed in seeds
        for penalty, strength in plans
    ]
    runs = []
    for run in _train_all(jobs, workers):
        runs.append(run)
        say(
            f"{run.penalty} {run.strength:g}, seed {run.seed}: {score} {run.test.score:.4f}, "
            f"path length {run.test.path_length:.2f} after {run.seconds:.0f} s"
        )
    points = average(runs)
    chosen = {name: point.strength for name, point in choose(points).items()}
    return PenaltyBenchmark(recipe.name, score, best_possible(recipe, seeds), chosen, tuple(points), tuple(runs))


def _train_all(jobs: Sequence[tuple[Settings, str, float]], workers: int) -> Iterator[Trained]:
    if workers == 1:
        yield from map(_train, jobs)
        return
    start = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, start, torch.set_num_threads, (1,)) as pool:
        yield from pool.map(_train, jobs)


def _on(penalty: str, strength: float) -> list[str]:
    return [] if penalty == "none" else [f"training.{penalty}={strength}"]


def _train(job: tuple[Settings, str, float]) -> Trained:
    recipe, penalty, strength = job
    task = make_task(recipe)
    trainer = task.trainer()
    began, best = time.monotonic(), None
    errors: list[float] = []
    for event in trainer.events():
        if isinstance(event, Validated) and event.is_best:
            best = copy.deepcopy(trainer.evaluated)
        if isinstance(event, Measured) and 2 * event.step > trainer.steps:
            errors.append(event.values["surrogate_error"])
    seconds = time.monotonic() - began
    model = trainer.evaluated if best is None else best
    tree, pruned = grow(task, model), grow(task, model, prune=True)
    valid, test = task.steps("valid"), held_out(task)[1]
    return Trained(
        penalty,
        strength,
        recipe.seed,
        score_tree(valid, model, tree),
        score_tree(test, model, tree),
        score_tree(test, model, pruned),
        fmean(errors) if errors else None,
        seconds,
    )


def average(runs: Sequence[Trained]) -> list[Point]:
    """The points of a curve, in the order in which they were first trained."""
    groups: dict[tuple[str, float], list[Trained]] = {}
    for run in runs:
        groups.setdefault((run.penalty, run.strength), []).append(run)
    return [
        Point(
            penalty=penalty,
            strength=strength,
            seeds=len(group),
            valid_score=fmean(run.valid.score for run in group),
            valid_path_length=fmean(run.valid.path_length for run in group),
            fewest_leaves=min(run.valid.leaves for run in group),
            test=_mean([run.test for run in group]),
            spread={
                name: stdev(getattr(run.test, name) for run in group) if len(group) > 1 else 0.0
                for name in vars(group[0].test)
            },
            pruned=_mean([run.pruned for run in group]),
            surrogate_error=_mean_error(group),
        )
        for (penalty, strength), group in groups.items()
    ]


def _mean_error(group: Sequence[Trained]) -> float | None:
    errors = [run.surrogate_error for run in group if run.surrogate_error is not None]
    return fmean(errors) if errors else None


def _mean(found: Sequence[TreeScores]) -> dict[str, float]:
    return {name: fmean(getattr(each, name) for each in found) for name in vars(found[0])}


def choose(points: Sequence[Point], tolerance: float = TOLERANCE) -> dict[str, Point]:
    """Of each penalty, the strength with the shortest paths among those that cost little: all by validation data.

    A score may lie below that of no penalty by `tolerance`. A tree of one leaf explains nothing: it is not chosen.
    """
    plain = next(point for point in points if point.penalty == "none")
    chosen = {"none": plain}
    for penalty in dict.fromkeys(point.penalty for point in points if point.penalty != "none"):
        able = [
            point
            for point in points
            if point.penalty == penalty
            and point.valid_score >= plain.valid_score - tolerance
            and point.fewest_leaves > 1
        ]
        if able:
            chosen[penalty] = min(able, key=lambda point: point.valid_path_length)
    return chosen


def best_possible(recipe: Settings, seeds: Sequence[int]) -> float | None:
    """The score on the test parts that no causal model passes in the long run, where it is known."""
    tasks = [make_task(override(recipe, [f"seed={seed}"])) for seed in seeds]
    known = [each.ceiling("test")["AUC"] for each in tasks if isinstance(each, SignalNoiseTask)]
    return fmean(known) if known else None
