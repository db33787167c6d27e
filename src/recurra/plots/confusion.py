"""The picture of which class was taken for which."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recurra.plots.dynamics import figures

NAMED = 40
"""With more classes than this, names and numbers no longer fit."""


def plot_confusion(names: list[str], counts: list[list[int]], file: Path) -> None:
    """True classes are rows, what was said columns. A square is as dark as its share of its row."""
    table = np.array(counts)
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    size = min(16.0, 4.5 + 0.45 * len(names))
    with figures(file, size + 1, size) as axes:
        for _, axis in axes:
            axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
            axis.set(xlabel="said", ylabel="true", title=f"{np.trace(table)} of {table.sum()} right")
            if len(names) > NAMED:
                continue
            plain = {"parse_math": False}  # a $ in a name is a $
            axis.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0, **plain)
            axis.set_yticks(range(len(names)), names, **plain)
            for i, j in zip(*np.nonzero(table), strict=True):
                ink = "white" if share[i, j] > 0.5 else "#222222"
                axis.text(j, i, str(table[i, j]), ha="center", va="center", color=ink, fontsize=11)
