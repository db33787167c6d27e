"""Decision-tree distillation: the tree that predicts at each step what a network predicts, and how well it does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.errors import OptionError
from recurra.metrics.roc_auc import auc
from recurra.models.decision_tree import MIN_LEAF, DecisionTree
from recurra.results import Result
from recurra.tasks.capabilities import ClassifiesSteps
from recurra.training.tree_penalty import Steps


@dataclass(frozen=True)
class TreeScores:
    """A network and the tree that mimics it, on one part of the data.

    - `score`: of the network, by `score_name`. `accuracy`: of the network too; `tree_accuracy`: of the tree, against the truth.
    - `fidelity`: how often the tree predicts what the network does. `path_length`: how many questions it asks on average.
    """

    score: float
    accuracy: float
    path_length: float
    leaves: int
    fidelity: float
    tree_accuracy: float


@dataclass(frozen=True, eq=False)
class Mimicry(Result):
    """The tree distilled from a network, and both on held-out steps. `target`: what is predicted."""

    tree: DecisionTree
    part: str
    steps: int
    scores: TreeScores

    @property
    def summary(self) -> str:
        found = self.scores
        return f"{self.tree.leaves} leaves, average path length {found.path_length:.2f}, fidelity {found.fidelity:.4f}"

    def __str__(self) -> str:
        found, name = self.scores, score_name(len(self.tree.classes))
        other = "" if name == "accuracy" else f"{name} of the network {found.score:.4f}; "
        right = f"accuracy of the network {found.accuracy:.4f}, of the tree {found.tree_accuracy:.4f}"
        return f"{self.tree.to_text()}{self.part}: {self.summary}; {other}{right}"

    def to_json(self) -> dict[str, Any]:
        return {"part": self.part, "steps": self.steps} | vars(self.scores) | {"tree": self.tree.to_json()}

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        return self.tree.plot(file, **{"title": self.summary} | options)


def mimic(task: ClassifiesSteps, model: Any, *, min_leaf: int = MIN_LEAF, prune: bool = False) -> Mimicry:
    """Distil the tree from a model's predictions on its training data; with `prune`, only branches that validation data
    confirms."""
    tree = grow(task, model, min_leaf=min_leaf, prune=prune)
    part, steps = held_out(task)
    return Mimicry(tree, part, len(steps.x), score_tree(steps, model, tree))


def grow(task: ClassifiesSteps, model: Any, *, min_leaf: int = MIN_LEAF, prune: bool = False) -> DecisionTree:
    """The tree alone."""
    tree = task.steps("train").mimic(model, min_leaf)
    if not prune:
        return tree
    valid = task.steps("valid")
    return tree.pruned(valid.x, valid.predicted(model))


def score_tree(steps: Steps, model: Any, tree: DecisionTree) -> TreeScores:
    """A network and its tree on some steps."""
    probabilities = steps.probabilities(model).cpu()
    predicted, true = probabilities.argmax(-1).numpy(), steps.targets.numpy()
    accuracy = float((predicted == true).mean())
    return TreeScores(
        score=auc(probabilities[:, 1], steps.targets) if len(steps.classes) == 2 else accuracy,
        accuracy=accuracy,
        path_length=tree.average_path_length(steps.x),
        leaves=tree.leaves,
        fidelity=tree.fidelity(steps.x, predicted),
        tree_accuracy=tree.fidelity(steps.x, true),
    )


def score_name(classes: int) -> str:
    """What networks are compared by: the ROC AUC of two classes, the accuracy of more."""
    return "AUC" if classes == 2 else "accuracy"


def held_out(task: ClassifiesSteps) -> tuple[str, Steps]:
    """The test part, or that of validation where there is none."""
    try:
        return "test", task.steps("test")
    except OptionError:
        return "valid", task.steps("valid")
