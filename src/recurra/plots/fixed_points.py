"""Fixed points in a plane of the state space: marks by kind, attractors by what the network outputs there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.fields import Plane, frame, plane_of_principal_components
from recurra.analysis.fixed_points import FixedPoints
from recurra.plots.figure import COLOURS, inks, painter
from recurra.plots.labels import Room

MARKS = {"attractor": ("o", 110), "saddle": ("X", 90), "repeller": ("^", 100), "marginal": ("s", 80)}


@painter(FixedPoints, (9, 8))
def paint_fixed_points(axis: Any, found: FixedPoints, *, plane: Plane | None = None, title: str = "") -> None:
    """`plane`: otherwise that of the first two principal components of the points, or of slow ones where there is none."""
    shown = [point.state for point in found.points or found.slow]
    states = torch.stack(shown) if shown else torch.zeros(1, 2)
    plane = plane or plane_of(states)
    low, high = frame(plane.project(states))
    for point in found.slow:
        axis.scatter(*plane.project(point.state[None])[0].numpy(), s=18, color=COLOURS[7])
    axis.grid(alpha=0.6)
    axis.set(xlabel=plane.names[0], ylabel=plane.names[1], title=title or f"{len(found.points)} fixed points")
    mark_points(axis, plane, found, low, high)


def plane_of(states: Tensor) -> Plane:
    """The plane in which some states differ most; of too few or too small ones, that of the first two units."""
    size = states.shape[1]
    if len(states) > 2 and size > 1:
        return plane_of_principal_components(states)
    axes = torch.eye(2, size, dtype=states.dtype)  # the second one is zero where the state is one number
    return Plane(torch.zeros_like(states[0]), axes[0], axes[1], ("unit 0", "unit 1" if size > 1 else ""))


def mark_points(
    axis: Any, plane: Plane, found: FixedPoints, low: Tensor, high: Tensor, colours: Sequence[str] = ()
) -> None:
    """Mark the points between two corners of the plane, and write the names of attractors where there is room.

    The legend counts as the text does: where some points lie outside the corners, it says how many of all are in view.
    `colours`: one for each attractor, as its basin has it.
    """
    axis.set(xlim=(float(low[0]), float(high[0])), ylim=(float(low[1]), float(high[1])))
    names = [*found.names, *[""] * len(found.points)]
    inside, number = [], 0
    for point, name in zip(found.points, names, strict=False):
        at = plane.project(point.state[None])[0]
        own = colours[number % len(colours)] if colours and point.kind == "attractor" else None
        number += point.kind == "attractor"
        if bool(((low <= at) & (at <= high)).all()):
            inside.append((point.kind, name, at.numpy(), own))
    for k, (kind, (mark, size)) in enumerate(MARKS.items()):
        places = [place for one, _, place, _ in inside if one == kind]
        total = sum(point.kind == kind for point in found.points)
        if places:
            count = str(total) if total == len(places) else f"{len(places)} of {total} in view"
            fills = [each or COLOURS[k] for one, _, _, each in inside if one == kind]
            look = {"marker": mark, "s": size, "color": fills, "edgecolor": inks(axis)[1], "zorder": 5}
            axis.scatter(*zip(*places, strict=True), label=f"{kind} ({count})", **look)
    if inside:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=4, frameon=False)
    room = Room(axis)
    room.keep_free(place for _, _, place, _ in inside)
    for kind, name, place, _ in inside:
        if kind == "attractor" and name:
            room.write(name, [place], shrink=6, fontsize=13, fontweight="bold")
