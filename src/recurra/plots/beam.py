"""A beam search as a tree: steps from left to right, the way to the best sequence drawn thick."""

from __future__ import annotations

from typing import Any

from recurra.analysis.beam import BeamTree
from recurra.plots.figure import COLOURS, inks, painter


def _size(tree: BeamTree) -> tuple[float, float]:
    steps = max((node.step for node in tree.nodes), default=1)
    return 2 + 0.7 * steps, 1.5 + 0.45 * (max(tree.rows(), default=0.0) + 1)


@painter(BeamTree, _size)
def paint_beam(axis: Any, tree: BeamTree, *, title: str = "") -> None:
    ground, ink = inks(axis)
    heights = tree.rows()
    for node, y in zip(tree.nodes, heights, strict=True):
        if node.parent >= 0:
            before = heights[node.parent]
            colour, width = (COLOURS[0], 2.6) if node.is_best else (COLOURS[7], 1.0)
            axis.plot([node.step - 1, node.step], [before, y], color=colour, lw=width, zorder=1)
    for node, y in zip(tree.nodes, heights, strict=True):
        box = {"boxstyle": "round,pad=0.25", "fc": ground, "ec": COLOURS[0] if node.is_best else COLOURS[7]}
        shown = node.token.replace(" ", "␣").replace("\n", "⏎") or "∅"
        axis.text(node.step, y, shown, ha="center", va="center", bbox=box, color=ink, zorder=2)
    axis.set(xlabel="step", title=title, yticks=[], ylim=(max(heights, default=0.0) + 0.7, -0.7))
    axis.spines["left"].set_visible(False)
