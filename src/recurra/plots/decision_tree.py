"""The picture of a decision tree: questions as boxes, leaves by what they say, the share of samples on each way as its width."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np

from recurra.models.decision_tree import DecisionTree
from recurra.plots.dynamics import COLOURS, figures

DRAWN = 40
"""Trees with more leaves than this are drawn without words: they would not be legible."""
WIDTH = 16
"""Letters in a line of a box."""


def plot_decision_tree(tree: DecisionTree, file: Path, title: str = "") -> None:
    """The root is at the top; yes goes to the left."""
    x, y = places(tree)
    depth, named = int(tree.depth.max()), tree.leaves <= DRAWN
    share = tree.counts.sum(1) / tree.counts[0].sum()
    with figures(file, min(40.0, 2.5 + 1.9 * tree.leaves), 2.4 + 1.3 * depth) as axes:
        for figure, axis in axes:
            ground, ink = figure.get_facecolor(), axis.xaxis.label.get_color()
            for k in np.flatnonzero(tree.feature >= 0).tolist():
                for answer, then in (("yes", tree.yes[k]), ("no", tree.no[k])):
                    axis.plot(x[[k, then]], y[[k, then]], color=COLOURS[7], lw=1 + 7 * share[then], zorder=1)
                    if named:
                        middle = (x[[k, then]].mean(), y[[k, then]].mean())
                        box = {"boxstyle": "round,pad=0.1", "fc": ground, "ec": "none"}
                        axis.text(*middle, answer, ha="center", va="center", fontsize=10, bbox=box, zorder=2)
            for k in range(len(tree)):
                leaf = tree.feature[k] < 0
                edge = COLOURS[tree.says[k] % 6] if leaf else ink
                if not named:
                    axis.scatter(x[k], y[k], s=30 if leaf else 8, color=edge, zorder=3)
                    continue
                words = f"{tree.classes[tree.says[k]]}\n{tree.counts[k].max()} of {tree.counts[k].sum()}"
                text = words if leaf else fill(tree.question(k), WIDTH)
                box = {"boxstyle": "round,pad=0.35" if leaf else "square,pad=0.35", "fc": ground, "ec": edge}
                weight = "bold" if leaf else "normal"
                axis.text(
                    x[k],
                    y[k],
                    text,
                    ha="center",
                    va="center",
                    fontsize=11,
                    fontweight=weight,
                    bbox=box | {"lw": 2 if leaf else 1},
                    zorder=3,
                    parse_math=False,
                )
            axis.set(xlim=(-0.7, tree.leaves - 0.3), ylim=(-depth - 0.5, 0.5), title=title)
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
