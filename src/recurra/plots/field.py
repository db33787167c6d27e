"""The vector field in a plane: arrows of one step, the speed as shade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from recurra.analysis.fields import Plane, Trajectory, VectorField
from recurra.analysis.fixed_points import FixedPoints
from recurra.plots.figure import COLOURS, painter
from recurra.plots.fixed_points import mark_points, plane_of


@painter(VectorField, (9, 8))
def paint_field(
    axis: Any,
    field: VectorField,
    *,
    points: FixedPoints | None = None,
    paths: Sequence[Tensor] = (),
    title: str = "",
) -> None:
    """`points`: fixed points to mark. `paths`: trajectories `[T, S]` to draw as lines."""
    speed = np.log10(field.speed.numpy().reshape(field.size, field.size) + 1e-12)
    shade = axis.imshow(speed, origin="lower", extent=extent(field), cmap="cividis", alpha=0.55, aspect="auto")
    axis.figure.colorbar(shade, ax=axis, label="log₁₀ speed", shrink=0.8)
    paint_arrows(axis, field, points, paths, title)


def extent(grid: Any) -> tuple[float, ...]:
    """Left, right, bottom and top of a grid of places."""
    (x0, y0), (x1, y1) = grid.places[0].tolist(), grid.places[-1].tolist()
    return x0, x1, y0, y1


def paint_arrows(
    axis: Any, field: VectorField, points: FixedPoints | None, paths: Sequence[Tensor] = (), title: str = ""
) -> None:
    """All of the field but its shade."""
    a, b, u, v = (
        values[:, k].numpy().reshape(field.size, field.size) for values in (field.places, field.moves) for k in range(2)
    )
    axis.streamplot(a, b, u, v, color=COLOURS[7], density=1.3, linewidth=0.9, arrowsize=1.1)
    for path in paths:
        paint_path(axis, field.plane, path)
    x0, x1, y0, y1 = extent(field)
    axis.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=field.plane.names[0], ylabel=field.plane.names[1], title=title)
    if points is not None:
        mark_points(axis, field.plane, points, field.places[0], field.places[-1])


def paint_path(axis: Any, plane: Plane, path: Tensor) -> None:
    seen = plane.project(path).numpy()
    axis.plot(seen[:, 0], seen[:, 1], color=COLOURS[1], lw=1.2, alpha=0.55)


@painter(Trajectory, (9, 8))
def paint_trajectory(axis: Any, trajectory: Trajectory, *, plane: Plane | None = None, title: str = "") -> None:
    """`plane`: otherwise that in which the states of the trajectory differ most."""
    plane = plane or plane_of(trajectory.states)
    paint_path(axis, plane, trajectory.states)
    start = plane.project(trajectory.states[:1])[0].numpy()
    axis.scatter(*start, s=60, color=COLOURS[0], zorder=5, label="start")
    axis.set(xlabel=plane.names[0], ylabel=plane.names[1], title=title)
    axis.grid(alpha=0.6)
    axis.legend()
