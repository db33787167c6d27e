"""Decision trees as surrogates of a network: grown by scikit-learn, pruned here, small enough to be followed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.results import Result

MIN_LEAF = 25
"""How many samples of those that a tree is grown from must reach each of its leaves."""

Numbers = npt.NDArray[np.floating[Any]]
Classes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class DecisionTree(Result):
    """Nodes by number, the root first and parents before their children: a question each, or at a leaf a class.

    - `feature`: which input is asked about, −1 at leaves; the answer is yes where it is greater than `threshold`.
    - `no`, `yes`: the number of the node that comes next. `counts`: how many samples of each class came by.
    - `features`, `classes`: names of the inputs and of the classes. `binary`: inputs that are 0 or 1.

    ```python
    x = np.random.default_rng(0).normal(size=(200, 2))
    print(rc.models.grow_tree(x, (x[:, 0] > 0).astype(int), ["age", "weight"], ["no", "yes"]))
    ```
    """

    feature: Classes
    threshold: Numbers
    no: Classes
    yes: Classes
    counts: Classes
    features: tuple[str, ...]
    classes: tuple[str, ...]
    binary: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.feature)

    @property
    def leaves(self) -> int:
        return int((self.feature < 0).sum())

    @cached_property
    def depth(self) -> Classes:
        """How many edges lie between the root and each node."""
        found = np.zeros(len(self), dtype=np.int64)
        for k in np.flatnonzero(self.feature >= 0):
            found[[self.no[k], self.yes[k]]] = found[k] + 1
        return found

    @cached_property
    def label(self) -> Classes:
        """The class of each node: the most frequent one among the samples that came by."""
        found: Classes = self.counts.argmax(1)
        return found

    def leaf_of(self, x: Numbers) -> Classes:
        """The number of the leaf that each sample reaches."""
        asked = x.astype(np.float32, copy=False)  # as scikit-learn compares
        node, going = np.zeros(len(x), dtype=np.int64), np.arange(len(x) if self.feature[0] >= 0 else 0)
        while len(going):
            at = node[going]
            is_yes = asked[going, self.feature[at]] > self.threshold[at]
            node[going] = np.where(is_yes, self.yes[at], self.no[at])
            going = going[self.feature[node[going]] >= 0]
        return node

    def predict(self, x: Numbers) -> Classes:
        return self.label[self.leaf_of(x)]

    def average_path_length(self, x: Numbers) -> float:
        """How many questions are asked of a sample on average: edges from the root to the leaf that it reaches."""
        return float(self.depth[self.leaf_of(x)].mean()) if len(x) else 0.0

    @property
    def own_path_length(self) -> float:
        """The same of the samples that the tree was grown from."""
        reached = self.counts.sum(1) * (self.feature < 0)
        return float((self.depth * reached).sum() / reached.sum())

    def fidelity(self, x: Numbers, labels: Classes) -> float:
        """The share of samples of which the tree predicts the label."""
        return float((self.predict(x) == labels).mean()) if len(x) else 1.0

    def pruned(self, x: Numbers, labels: Classes) -> DecisionTree:
        """What is left when branches are cut that do not lessen the errors on these samples, from the leaves up.

        On the samples that the tree was grown from, it makes no more errors than before; on others, this is reduced-error
        pruning (Quinlan 1987).
        """
        C = len(self.classes)
        came = np.bincount(self.leaf_of(x) * C + labels, minlength=len(self) * C).reshape(-1, C)
        for k in np.flatnonzero(self.feature >= 0)[::-1]:
            came[k] = came[self.no[k]] + came[self.yes[k]]
        return self._pruned_by(came)

    def _pruned_by(self, came: Classes) -> DecisionTree:
        """The same, by how many samples of each class came by each node."""
        wrong = came.sum(1) - came[np.arange(len(self)), self.label]
        cut, errors = self.feature < 0, wrong.copy()
        for k in np.flatnonzero(self.feature >= 0)[::-1]:
            below = errors[self.no[k]] + errors[self.yes[k]]
            cut[k] = wrong[k] <= below
            errors[k] = min(wrong[k], below)
        return self._without(cut)

    def _without(self, cut: npt.NDArray[np.bool_]) -> DecisionTree:
        """The tree with these nodes as leaves, and what was below them gone."""
        kept = np.zeros(len(self), dtype=bool)
        kept[0] = True
        for k in np.flatnonzero(~cut):
            kept[[self.no[k], self.yes[k]]] |= kept[k]
        number = kept.cumsum() - 1
        return replace(
            self,
            feature=np.where(cut, -1, self.feature)[kept],
            threshold=np.where(cut, 0, self.threshold)[kept],
            no=np.where(cut, 0, number[self.no])[kept],
            yes=np.where(cut, 0, number[self.yes])[kept],
            counts=self.counts[kept],
        )

    # -- in words ----------------------------------------------------------------------------------------------------

    def question(self, k: int) -> str:
        """What a node asks; yes or no is the answer."""
        name = self.features[self.feature[k]]
        return f"{name}?" if self.feature[k] in self.binary else f"{name} > {self.threshold[k]:.4g}?"

    def about(self, k: int) -> str:
        """The class of a leaf, and of how many samples that reached it this was true."""
        return f"{self.classes[self.label[k]]} ({self.counts[k].max()} of {self.counts[k].sum()})"

    def to_text(self) -> str:
        """A line for each answer, further in the deeper it lies."""
        if len(self) == 1:
            return f"always {self.about(0)}\n"
        lines: list[str] = []

        def write(k: int) -> None:
            for answer, then in (("yes", int(self.yes[k])), ("no", int(self.no[k]))):
                leaf = f" → {self.about(then)}" if self.feature[then] < 0 else ""
                lines.append(f"{'│  ' * self.depth[k]}{self.question(k)} {answer}{leaf}")
                if self.feature[then] >= 0:
                    write(then)

        write(0)
        return "\n".join(lines) + "\n"

    def to_dot(self) -> str:
        """For Graphviz: `dot -Tsvg`."""
        lines = ["digraph tree {", '  node [fontname="sans-serif"];']
        for k in range(len(self)):
            label = self.question(k) if self.feature[k] >= 0 else self.about(k)
            lines.append(f"  {k} [label={_quoted(label)}, shape={'box' if self.feature[k] >= 0 else 'ellipse'}];")
        for node in np.flatnonzero(self.feature >= 0):
            lines += [f'  {node} -> {self.yes[node]} [label="yes"];', f'  {node} -> {self.no[node]} [label="no"];']
        return "\n".join([*lines, "}"]) + "\n"

    def to_json(self, k: int = 0) -> dict[str, Any]:
        """Nested: each node with its samples by class, and a question with what follows, or the class of a leaf."""
        counts = dict(zip(self.classes, self.counts[k].tolist(), strict=True))
        if self.feature[k] < 0:
            return {"says": self.classes[self.label[k]], "counts": counts}
        asked = {"feature": self.features[self.feature[k]], "greater_than": float(self.threshold[k])}
        below = {"yes": self.to_json(int(self.yes[k])), "no": self.to_json(int(self.no[k]))}
        return asked | {"counts": counts} | below

    def arrays(self) -> dict[str, Tensor]:
        names = ("feature", "threshold", "no", "yes", "counts")
        return {name: torch.from_numpy(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        return f"{self.to_text()}{self.leaves} leaves, average path length {self.own_path_length:.2f}"


def find_grower() -> Any:
    """scikit-learn's trees, if it is installed."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise OptionError(
            "decision trees need scikit-learn. Install it with pip install 'recurra[analysis]'."
        ) from None
    return DecisionTreeClassifier


def grow_tree(
    x: Numbers, labels: Classes, features: Sequence[str], classes: Sequence[str], *, min_leaf: int = MIN_LEAF
) -> DecisionTree:
    """A tree that predicts the label of each sample: the same tree for the same samples, and no branch without use.

    ```python
    x = np.random.default_rng(0).normal(size=(200, 2))
    tree = rc.models.grow_tree(x, (x[:, 0] > x[:, 1]).astype(int), ["age", "weight"], ["no", "yes"])
    tree.average_path_length(x)
    ```
    """
    if min_leaf < 1:
        raise OptionError(f"min_leaf must be at least 1; got {min_leaf}.")
    numbers = np.asarray(labels, dtype=np.int64)
    grown = find_grower()(min_samples_leaf=min_leaf, random_state=0).fit(np.asarray(x, dtype=np.float32), numbers)
    nodes = grown.tree_
    inner = nodes.children_left >= 0
    counts = np.zeros((nodes.node_count, len(classes)), dtype=np.int64)
    counts[:, grown.classes_] = np.rint(nodes.value[:, 0] * nodes.n_node_samples[:, None])
    tree = DecisionTree(
        feature=np.where(inner, nodes.feature, -1),
        threshold=np.where(inner, nodes.threshold, 0.0),
        no=np.where(inner, nodes.children_left, 0),
        yes=np.where(inner, nodes.children_right, 0),
        counts=counts,
        features=tuple(features),
        classes=tuple(classes),
        binary=frozenset(np.flatnonzero(((x == 0) | (x == 1)).all(0)).tolist()),
    )
    return tree._pruned_by(counts)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
