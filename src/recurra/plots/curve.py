"""A metric over the steps of a training."""

from __future__ import annotations

from typing import Any

from recurra.plots.figure import COLOURS, painter
from recurra.runs.log import Curve


@painter(Curve)
def paint_curve(axis: Any, curve: Curve, *, title: str = "") -> None:
    """The mean of each point, and from the smallest to the largest of its rows as a band."""
    axis.fill_between(curve.steps, curve.low, curve.high, color=COLOURS[0], alpha=0.2, lw=0)
    axis.plot(curve.steps, curve.mean, color=COLOURS[0], lw=1.8)
    axis.set(xlabel="step", ylabel=curve.name, title=title)
    axis.grid(alpha=0.4)
