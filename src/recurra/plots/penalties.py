"""A sweep of penalties: how good networks are over how long the paths of their decision trees are."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.analysis.penalties import PenaltySweep
from recurra.plots.figure import COLOURS, DASHES, inks, painter
from recurra.plots.labels import Room

NAMES = {"none": "no penalty", "l1": "L1", "l2": "L2", "tree": "tree"}


@painter(PenaltySweep, (10, 6.5))
def paint_penalties(axis: Any, sweep: PenaltySweep) -> None:
    """A line for each penalty from weak to strong; the chosen strength ringed; the best possible score as a line on top."""
    ink, named = inks(axis)[1], []
    for k, penalty in enumerate(dict.fromkeys(point.penalty for point in sweep.points)):
        own = sorted((point for point in sweep.points if point.penalty == penalty), key=lambda point: point.strength)
        spreads = {"xerr": [point.path_spread for point in own], "yerr": [point.score_spread for point in own]}
        look = {"marker": "osD^"[k % 4], "ms": 8, "ls": DASHES[k % 4], "lw": 1.8, "elinewidth": 0.8, "alpha": 0.9}
        x, y = [point.path_length for point in own], [point.score for point in own]
        axis.errorbar(x, y, color=COLOURS[k], label=NAMES.get(penalty, penalty), **spreads, **look)
        for point in own:
            if point.penalty != "none":
                named.append((point, COLOURS[k]))
            if point.is_chosen:
                axis.scatter(point.path_length, point.score, s=260, fc="none", ec=ink, lw=1.5, zorder=5)
    if sweep.ceiling is not None:
        axis.axhline(sweep.ceiling, color=COLOURS[7], lw=2, ls="--", label="best possible (Bayes)")
    axis.set(
        xlabel="average path length of the surrogate tree, in questions",
        ylabel=f"{sweep.metric} of the network on test data",
        xlim=(min(0.0, axis.get_xlim()[0]), None),
    )
    axis.grid(alpha=0.5)
    axis.legend(loc="lower right")
    room = Room(axis)
    room.keep_free(np.array([point.path_length, point.score]) for point in sweep.points)
    for point, colour in named:
        place = np.array([point.path_length, point.score])
        room.write(f"{point.strength:g}", [place], fontsize=10, color=colour, fontweight="bold")
