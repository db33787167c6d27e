"""Activation functions, and below them their slopes."""

from __future__ import annotations

from typing import Any

from recurra.lecture.activations import Activations
from recurra.plots.figure import COLOURS, DASHES, painter


@painter(Activations, (9, 8))
def paint_activations(axis: Any, found: Activations) -> None:
    figure = axis.figure
    axis.remove()
    above, below = figure.subplots(2, 1, sharex=True)
    a = found.a.numpy()
    for k, name in enumerate(found.values):
        look = {"color": COLOURS[k % 6], "ls": DASHES[k % 4], "lw": 2.5, "label": name}
        look["zorder"] = 2.5 if look["ls"] != "-" else 2  # where lines are one, what is dashed shows what is below
        above.plot(a, found.values[name].numpy(), **look)
        below.plot(a, found.slopes[name].numpy(), **look)
    above.set(ylabel="φ(a)", ylim=(-1.6, 2.6), title="Activation functions and their slopes")
    below.set(xlabel="a", ylabel="φ′(a)", ylim=(-0.1, 1.15))
    for each in (above, below):
        each.grid(alpha=0.6)
    above.legend(loc="upper left", fontsize=12)
