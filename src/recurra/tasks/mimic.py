"""A decision tree in place of a network: how well it does, and what L1, L2 and tree regularization do to its size."""

from __future__ import annotations

import copy
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import torch

from recurra.errors import OptionError
from recurra.metrics.roc_auc import auc
from recurra.models.decision_tree import MIN_LEAF, DecisionTree
from recurra.tasks.catalogue import begin
from recurra.tasks.settings import override
from recurra.tasks.signal_noise import SignalNoiseTask
from recurra.tasks.task import Settings, Task
from recurra.training.loop import Measured, Validated
from recurra.training.tree_penalty import Steps

TOLERANCE = 0.02
"""How much of the score a simpler network may cost."""


@dataclass(frozen=True)
class Judged:
    """A network and the tree that mimics it, on one part of the data.

    - `score`: of the network, by `score_name`. `accuracy`: of the network too; `tree_accuracy`: of the tree, against the truth.
    - `fidelity`: how often the tree says what the network says. `path_length`: how many questions it asks on average.
    """

    score: float
    accuracy: float
    path_length: float
    leaves: int
    fidelity: float
    tree_accuracy: float


def mimic(task: Task[Any], model: Any, *, min_leaf: int = MIN_LEAF, prune: bool = False) -> DecisionTree:
    """The tree that says what a model says of its training data; with `prune`, only branches that validation data confirms."""
    tree = task.steps("train").mimic(model, min_leaf)
    if not prune:
        return tree
    valid = task.steps("valid")
    return tree.pruned(valid.x, valid.said(model))


def judge_tree(steps: Steps, model: Any, tree: DecisionTree) -> Judged:
    """A network and its tree on some steps."""
    probabilities = steps.probabilities(model).cpu()
    said, true = probabilities.argmax(-1).numpy(), steps.targets.numpy()
    accuracy = float((said == true).mean())
    return Judged(
        score=auc(probabilities[:, 1], steps.targets) if len(steps.classes) == 2 else accuracy,
        accuracy=accuracy,
        path_length=tree.average_path_length(steps.x),
        leaves=tree.leaves,
        fidelity=tree.fidelity(steps.x, said),
        tree_accuracy=tree.fidelity(steps.x, true),
    )


def score_name(classes: int) -> str:
    """What networks are compared by: the area under the curve of two classes, the accuracy of more."""
    return "AUC" if classes == 2 else "accuracy"


def held_out(task: Task[Any]) -> tuple[str, Steps]:
    """The test part, or that of validation where there is none."""
    try:
        return "test", task.steps("test")
    except OptionError:
        return "valid", task.steps("valid")


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
    valid: Judged
    test: Judged
    pruned: Judged
    surrogate_error: float | None
    seconds: float


def sweep_penalties(
    recipe: Settings, strengths: Mapping[str, Sequence[float]], seeds: Sequence[int], workers: int = 1
) -> Iterator[Trained]:
    """Train a network without a penalty, and one for each penalty (`l1`, `l2`, `tree`) and strength; with every seed."""
    plans = [("none", 0.0), *((name, strength) for name, every in strengths.items() for strength in every)]
    off = [f"training.{name}=0" for name in ("l1", "l2", "tree")]
    jobs = [
        (override(recipe, [*off, *_on(penalty, strength), f"seed={seed}"]), penalty, strength)
        for seed in seeds
        for penalty, strength in plans
    ]
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
    task = begin(recipe)
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
    tree, pruned = mimic(task, model), mimic(task, model, prune=True)
    valid, test = task.steps("valid"), held_out(task)[1]
    return Trained(
        penalty,
        strength,
        recipe.seed,
        judge_tree(valid, model, tree),
        judge_tree(test, model, tree),
        judge_tree(test, model, pruned),
        fmean(errors) if errors else None,
        seconds,
    )


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


def _mean(found: Sequence[Judged]) -> dict[str, float]:
    return {name: fmean(getattr(each, name) for each in found) for name in vars(found[0])}


def choose(points: Sequence[Point], tolerance: float = TOLERANCE) -> dict[str, Point]:
    """Of each penalty, the strength with the shortest paths among those that cost little: all by validation data.

    A score may lie below that of no penalty by `tolerance`. A tree that asks nothing mimics nothing: it is not chosen.
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
    tasks = [begin(override(recipe, [f"seed={seed}"])) for seed in seeds]
    known = [each.ceiling("test")["AUC"] for each in tasks if isinstance(each, SignalNoiseTask)]
    return fmean(known) if known else None
