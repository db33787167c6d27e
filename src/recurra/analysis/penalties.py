"""A sweep of penalties: how good networks are over how long the paths of their decision trees are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recurra.results import Result, Table


@dataclass(frozen=True)
class PenaltyPoint:
    """One penalty at one strength: mean and spread over seeds of path length and score; whether validation data chose it."""

    penalty: str
    strength: float
    path_length: float
    path_spread: float
    score: float
    score_spread: float
    is_chosen: bool


@dataclass(frozen=True)
class PenaltySweep(Result):
    """`metric`: the name of the score. `ceiling`: the best possible score, where that is known."""

    points: Sequence[PenaltyPoint]
    metric: str = "ROC AUC"
    ceiling: float | None = None

    def table(self) -> Table:
        rows = [
            (p.penalty, f"{p.strength:g}", "*" if p.is_chosen else "", f"{p.score:.4f}", f"{p.path_length:.2f}")
            for p in self.points
        ]
        return Table(("penalty", "strength", "chosen", self.metric, "path length"), rows)
