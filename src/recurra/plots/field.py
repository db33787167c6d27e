"""The vector field in a plane: arrows of one step, the speed as shade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from recurra.analysis.fields import Plane, Trajectory, VectorField
from recurra.analysis.fixed_points import FixedPoints
from recurra.errors import choose_from
from recurra.plots.figure import COLOURS, inks, painter
from recurra.plots.fixed_points import mark_points, plane_of

FORMS = ("arrows", "contours", "surface")


@painter(VectorField, (9, 8))
def paint_field(
    axis: Any,
    field: VectorField,
    *,
    points: FixedPoints | None = None,
    paths: Sequence[Tensor] = (),
    title: str = "",
    form: str = "arrows",
) -> None:
    """`points`: fixed points to mark. `paths`: trajectories `[T, S]` to draw as lines. `form`: `arrows` over the speed as shade,
    `contours` of the speed, or the speed as a `surface`."""
    choose_from("form", form, FORMS)
    if form == "surface":
        paint_surface(axis, field, points, title)
        return
    speed = log_speed(field)
    if form == "contours":
        shade = axis.contourf(*grids(field)[:2], speed, levels=14, cmap="cividis", alpha=0.75)
        lines = axis.contour(*grids(field)[:2], speed, levels=14, colors=[inks(axis)[1]], linewidths=0.7)
        lines.set_gid("contours")
    else:
        shade = axis.imshow(speed, origin="lower", extent=extent(field), cmap="cividis", alpha=0.4, aspect="auto")
    axis.figure.colorbar(shade, ax=axis, label="log₁₀ speed", shrink=0.8)
    paint_arrows(axis, field, points, paths, title, streams=form == "arrows")


def log_speed(field: VectorField) -> Any:
    """Of each place of the grid. What is slower than a hundredth of the slowest twentieth is cut off, so that one place at a
    fixed point does not take all colours."""
    speed = np.log10(field.speed.numpy().reshape(field.size, field.size) + 1e-12)
    return np.maximum(speed, np.quantile(speed, 0.05) - 2)


def paint_surface(axis: Any, field: VectorField, points: FixedPoints | None, title: str) -> None:
    """Speed as height: attractors lie at the bottom of its hollows."""
    figure = axis.figure
    ink = inks(axis)[1]
    axis.remove()
    solid = figure.add_subplot(projection="3d")
    a, b, _, _ = grids(field)
    height = log_speed(field)
    solid.plot_surface(a, b, height, cmap="cividis", alpha=0.85, linewidth=0.2, edgecolor=ink)
    floor = float(height.min())
    low, high = field.places[0], field.places[-1]
    marked = [field.plane.project(point.state[None])[0] for point in ([] if points is None else points.attractors)]
    marked = [at for at in marked if bool(((low <= at) & (at <= high)).all())]
    if marked:
        label = f"attractor ({len(marked)}), on the floor"
        where = [float(at[0]) for at in marked], [float(at[1]) for at in marked], [floor] * len(marked)
        solid.scatter(*where, s=70, color=COLOURS[1], depthshade=False, label=label)
        solid.legend(loc="upper left", frameon=False)
    for side in (solid.xaxis, solid.yaxis, solid.zaxis):
        side.set_pane_color((0, 0, 0, 0))
    solid.set(xlabel=field.plane.names[0], ylabel=field.plane.names[1], zlabel="log₁₀ speed", title=title)
    solid.tick_params(labelsize=10)
    solid.view_init(elev=42, azim=-60)


def grids(field: VectorField) -> list[Any]:
    """Places and moves, each coordinate as a square."""
    return [
        values[:, k].numpy().reshape(field.size, field.size) for values in (field.places, field.moves) for k in range(2)
    ]


def paint_streams(axis: Any, field: VectorField, density: float = 1.3) -> None:
    """Lines along the moves, in the colour of writing, so that they can be read over every shade."""
    lines = axis.streamplot(*grids(field), color=inks(axis)[1], density=density, linewidth=1.0, arrowsize=1.2)
    lines.lines.set_alpha(0.75)


def extent(grid: Any) -> tuple[float, ...]:
    """Left, right, bottom and top of a grid of places."""
    (x0, y0), (x1, y1) = grid.places[0].tolist(), grid.places[-1].tolist()
    return x0, x1, y0, y1


def paint_arrows(
    axis: Any,
    field: VectorField,
    points: FixedPoints | None,
    paths: Sequence[Tensor] = (),
    title: str = "",
    *,
    streams: bool = True,
    colours: Sequence[str] = (),
) -> None:
    """All of the field but its shade. `colours`: of attractors, where each has its own."""
    if streams:
        paint_streams(axis, field)
    for path in paths:
        paint_path(axis, field.plane, path)
    x0, x1, y0, y1 = extent(field)
    axis.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=field.plane.names[0], ylabel=field.plane.names[1], title=title)
    if points is not None:
        mark_points(axis, field.plane, points, field.places[0], field.places[-1], colours)


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
