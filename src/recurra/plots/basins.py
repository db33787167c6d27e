"""The plane coloured by the attractor that each place ends at."""

from __future__ import annotations

from typing import Any

from recurra.analysis.fields import Basins, VectorField
from recurra.analysis.fixed_points import FixedPoints
from recurra.plots.field import extent, paint_arrows
from recurra.plots.figure import COLOURS, painter
from recurra.plots.fixed_points import mark_points

AREAS = (*COLOURS[:7], "#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499", "#117733")
"""Basins may be many: also the colours of Tol."""


@painter(Basins, (9, 8))
def paint_basins(
    axis: Any,
    basins: Basins,
    *,
    field: VectorField | None = None,
    points: FixedPoints | None = None,
    title: str = "",
) -> None:
    """`field`: its arrows are drawn on top. `points`: fixed points to mark."""
    from matplotlib.colors import ListedColormap

    labels = basins.labels.numpy().reshape(basins.size, basins.size)
    kinds = ["#808080", *(AREAS[k % len(AREAS)] for k in range(max(1, int(labels.max()) + 1)))]
    look = {"cmap": ListedColormap(kinds), "vmin": 0, "vmax": len(kinds) - 1, "alpha": 0.35, "interpolation": "nearest"}
    axis.imshow(labels + 1, origin="lower", extent=extent(basins), aspect="auto", **look)
    if field is not None:
        paint_arrows(axis, field, points, title=title)
        return
    axis.set(xlabel=basins.plane.names[0], ylabel=basins.plane.names[1], title=title)
    if points is not None:
        mark_points(axis, basins.plane, points, basins.places[0], basins.places[-1])
