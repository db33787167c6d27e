"""A decision tree distilled from a network, and how well it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recurra.errors import OptionError
from recurra.metrics.roc_auc import auc
from recurra.models.decision_tree import MIN_LEAF, DecisionTree
from recurra.tasks.task import Task
from recurra.training.tree_penalty import Steps


@dataclass(frozen=True)
class Judged:
    """A network and the tree distilled from it, on one part of the data.

    - `score`: of the network, by `score_name`. `accuracy`: of the network too; `tree_accuracy`: of the tree, against the truth.
    - `fidelity`: how often the tree predicts what the network predicts. `path_length`: how many questions it asks on average.
    """

    score: float
    accuracy: float
    path_length: float
    leaves: int
    fidelity: float
    tree_accuracy: float


def mimic(task: Task[Any], model: Any, *, min_leaf: int = MIN_LEAF, prune: bool = False) -> DecisionTree:
    """The tree that predicts what a model predicts on its training data; `prune` keeps branches that validation data confirm."""
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
