"""The confusion matrix: true classes are rows, predicted ones columns. A square is as dark as its share of its row."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.metrics.confusion import Confusion
from recurra.plots.figure import painter

NAMED = 40
"""With more classes than this, names and numbers no longer fit."""


def _size(confusion: Confusion) -> tuple[float, float]:
    side = min(16.0, 4.5 + 0.45 * len(confusion.labels))
    return side + 1, side


@painter(Confusion, _size)
def paint_confusion(axis: Any, confusion: Confusion) -> None:
    names, counts = confusion.labels, np.array(confusion.counts)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axis.set(xlabel="predicted", ylabel="true", title=f"{confusion.right} of {confusion.total} right")
    if len(names) > NAMED:
        return
    axis.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0)
    axis.set_yticks(range(len(names)), names)
    for i, j in zip(*np.nonzero(counts), strict=True):
        ink = "white" if share[i, j] > 0.5 else "#222222"
        axis.text(j, i, str(counts[i, j]), ha="center", va="center", color=ink, fontsize=11)
