"""A decision tree: questions as boxes, leaves by their class, the share of samples that take an edge as its width."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from recurra.models.decision_tree import DecisionTree
from recurra.plots.figure import COLOURS, inks, painter

DRAWN = 40
"""Trees with more leaves than this are drawn without words: they would not be legible."""
WIDTH = 16
"""Letters in a line of a box."""


@painter(DecisionTree, lambda tree: (min(40.0, 2.5 + 1.9 * tree.leaves), 2.4 + 1.3 * int(tree.depth.max())))
def paint_decision_tree(axis: Any, tree: DecisionTree, *, title: str = "") -> None:
    """The root is at the top; yes goes to the left."""
    x, y = places(tree)
    share = tree.counts.sum(1) / tree.counts[0].sum()
    named, (ground, ink) = tree.leaves <= DRAWN, inks(axis)
    for k in np.flatnonzero(tree.feature >= 0).tolist():
        for answer, then in (("yes", tree.yes[k]), ("no", tree.no[k])):
            axis.plot(x[[k, then]], y[[k, then]], color=COLOURS[7], lw=1 + 7 * share[then], zorder=1)
            if named:
                box = {"boxstyle": "round,pad=0.1", "fc": ground, "ec": "none"}
                middle = (x[[k, then]].mean(), y[[k, then]].mean())
                axis.text(*middle, answer, ha="center", va="center", fontsize=10, bbox=box, zorder=2)
    for k in range(len(tree)):
        leaf = tree.feature[k] < 0
        edge = COLOURS[tree.label[k] % 6] if leaf else ink
        if not named:
            axis.scatter(x[k], y[k], s=30 if leaf else 8, color=edge, zorder=3)
            continue
        words = f"{tree.classes[tree.label[k]]}\n{tree.counts[k].max()} of {tree.counts[k].sum()}"
        box = {
            "boxstyle": "round,pad=0.35" if leaf else "square,pad=0.35",
            "fc": ground,
            "ec": edge,
            "lw": 2 if leaf else 1,
        }
        look = {"fontsize": 11, "fontweight": "bold" if leaf else "normal", "bbox": box, "zorder": 3}
        axis.text(x[k], y[k], words if leaf else fill(tree.question(k), WIDTH), ha="center", va="center", **look)
    axis.set(xlim=(-0.7, tree.leaves - 0.3), ylim=(-int(tree.depth.max()) - 0.5, 0.5), title=title)
    axis.axis("off")


def places(tree: DecisionTree) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    """Where nodes stand: leaves side by side in order, a question in the middle above its two answers."""
    x, next_leaf = np.zeros(len(tree)), 0
    waiting = [(0, False)]
    while waiting:  # a node comes twice: before and after what is below it
        k, seen = waiting.pop()
        if tree.feature[k] < 0:
            x[k], next_leaf = next_leaf, next_leaf + 1
        elif seen:
            x[k] = (x[tree.yes[k]] + x[tree.no[k]]) / 2
        else:
            waiting += [(k, True), (int(tree.no[k]), False), (int(tree.yes[k]), False)]
    return x, -tree.depth.astype(np.float64)
