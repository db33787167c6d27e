"""A state or gate through time, as shades: a row for each unit, a column for each step."""

from __future__ import annotations

from typing import Any

from recurra.analysis.through_time import ThroughTime
from recurra.plots.figure import painter

MOST = 120
"""Steps whose tokens are written out."""


def _size(found: ThroughTime) -> tuple[float, float]:
    steps, units = next(iter(found.values.values())).shape
    return min(24.0, 3 + 0.16 * steps), min(16.0, 2 + 0.12 * units)


@painter(ThroughTime, _size)
def paint_through_time(axis: Any, found: ThroughTime, *, name: str | None = None, title: str = "") -> None:
    """`name`: which state or gate; the first one otherwise."""
    name = name or next(iter(found.values))
    values = found.of(name)
    most = max(1e-9, float(values.abs().max()))
    shades = axis.imshow(
        values.T.numpy(), cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest", origin="lower"
    )
    if found.tokens and len(found.tokens) <= MOST:
        shown = [token.replace(" ", "␣").replace("\n", "⏎") or "∅" for token in found.tokens]
        axis.set_xticks(range(len(shown)), shown, family="monospace", size=9)
    axis.set(xlabel="token" if found.tokens else "step", ylabel=f"unit of {name}", title=title)
    axis.figure.colorbar(shades, ax=axis, label=name)
