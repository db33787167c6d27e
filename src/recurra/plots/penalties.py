"""The picture of a sweep: how good networks are over how long the paths of their trees are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recurra.plots.dynamics import COLOURS, DASHES, figures
from recurra.plots.labels import Room

NAMES = {"none": "no penalty", "l1": "L1", "l2": "L2", "tree": "tree"}


@dataclass(frozen=True)
class Spot:
    """One penalty at one strength: mean and spread of both axes; whether validation data chose it."""

    penalty: str
    strength: float
    path_length: float
    path_spread: float
    score: float
    score_spread: float
    is_chosen: bool


def plot_penalties(spots: Sequence[Spot], file: Path, *, score: str = "AUC", ceiling: float | None = None) -> None:
    """A line for each penalty from weak to strong; the chosen strength ringed; the best possible score as a line on top."""
    with figures(file, 10, 6.5) as axes:
        for figure, axis in axes:
            ink, named = axis.xaxis.label.get_color(), []
            for k, penalty in enumerate(dict.fromkeys(spot.penalty for spot in spots)):
                own = sorted((spot for spot in spots if spot.penalty == penalty), key=lambda spot: spot.strength)
                x, y = [spot.path_length for spot in own], [spot.score for spot in own]
                axis.errorbar(
                    x,
                    y,
                    xerr=[spot.path_spread for spot in own],
                    yerr=[spot.score_spread for spot in own],
                    color=COLOURS[k],
                    marker="osD^"[k % 4],
                    ms=8,
                    ls=DASHES[k % 4],
                    lw=1.8,
                    elinewidth=0.8,
                    alpha=0.9,
                    label=NAMES.get(penalty, penalty),
                )
                for spot in own:
                    if spot.penalty != "none":
                        named.append((spot, COLOURS[k]))
                    if spot.is_chosen:
                        axis.scatter(spot.path_length, spot.score, s=260, fc="none", ec=ink, lw=1.5, zorder=5)
            if ceiling is not None:
                axis.axhline(ceiling, color=COLOURS[7], lw=2, ls="--", label="best possible (Bayes)")
            axis.set(
                xlabel="average path length of the tree that mimics the network, in questions",
                ylabel=f"{score} of the network on test data",
                xlim=(min(0.0, axis.get_xlim()[0]), None),
            )
            axis.grid(alpha=0.5)
            axis.legend(loc="lower right")
            room = Room(figure, axis)
            room.keep_free(np.array([spot.path_length, spot.score]) for spot in spots)
            for spot, colour in named:
                place = np.array([spot.path_length, spot.score])
                room.write(f"{spot.strength:g}", [place], fontsize=10, color=colour, fontweight="bold")
