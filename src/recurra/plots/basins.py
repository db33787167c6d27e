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


@painter(Basins, (11.5, 8))
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
    from matplotlib.patches import Patch

    labels = basins.labels.numpy().reshape(basins.size, basins.size)
    count = max(1, int(labels.max()) + 1, 0 if points is None else len(points.attractors))
    areas = [AREAS[k % len(AREAS)] for k in range(count)]
    kinds = ["#808080", *areas]
    look = {"cmap": ListedColormap(kinds), "vmin": 0, "vmax": len(kinds) - 1, "alpha": 0.45, "interpolation": "nearest"}
    axis.imshow(labels + 1, origin="lower", extent=extent(basins), aspect="auto", **look)
    # the dot of an attractor has the colour of its basin; the legend names both
    handles = [
        Patch(fc=areas[k], alpha=0.6, label=f"{name} ({100 * share:.0f} %)")
        for k, (name, share) in enumerate(zip(attractor_names(points, count), basin_shares(basins, count), strict=True))
    ]
    if bool((basins.labels < 0).any()):
        handles.append(Patch(fc="#808080", alpha=0.6, label=f"none of them ({100 * (1 - basins.share):.0f} %)"))
    axis.set(xlabel=basins.plane.names[0], ylabel=basins.plane.names[1], title=title)
    side = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "title": "ends at", "fontsize": 12}
    axis.figure.legend(handles=handles, **side | {"loc": "outside right upper", "bbox_to_anchor": None})
    if field is not None:
        paint_arrows(axis, field, points, title=title, colours=areas)
    elif points is not None:
        mark_points(axis, basins.plane, points, basins.places[0], basins.places[-1], areas)


def attractor_names(points: FixedPoints | None, count: int) -> list[str]:
    """Of each attractor, in order: what the network predicts there, or its number."""
    names = [] if points is None else [*points.names, *[""] * len(points.points)]
    own = [
        name for point, name in zip(points.points if points else [], names, strict=False) if point.kind == "attractor"
    ]
    own += [""] * (count - len(own))
    return [f"{k + 1}: {name}" if name else f"attractor {k + 1}" for k, name in enumerate(own)]


def basin_shares(basins: Basins, count: int) -> list[float]:
    return [float((basins.labels == k).float().mean()) for k in range(count)]
