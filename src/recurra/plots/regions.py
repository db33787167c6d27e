"""Linear regions of a rectifier network: polygons of a plane, or the pieces of a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from recurra.errors import OptionError
from recurra.lecture.regions import LineRegions, PlaneRegions, Rectifier
from recurra.plots.figure import COLOURS, inks, painter


@painter(PlaneRegions, (9, 8))
def paint_plane(
    axis: Any,
    regions: PlaneRegions,
    *,
    network: Rectifier | None = None,
    points: Tensor | None = None,
    labels: Tensor | None = None,
    classes: Sequence[str] = (),
    columns: Sequence[str] = ("x", "y"),
) -> None:
    """The regions of a window, shaded by how many units are on.

    - `network`: also the line on which its classes meet. `points`, `labels`, `classes`: examples on top. `columns`: axes.
    """
    from matplotlib.collections import PolyCollection

    if not regions.polygons:
        raise OptionError("regions of the whole plane are unbounded and have no picture: count them on a window.")
    corners = np.concatenate(regions.polygons)
    (x0, y0), (x1, y1) = corners.min(0), corners.max(0)
    ink = inks(axis)[1]
    shade = PolyCollection(regions.polygons, cmap="cividis", alpha=0.5, edgecolor=ink, linewidth=0.4)
    shade.set_array(regions.patterns.sum(1))
    axis.add_collection(shade)
    axis.figure.colorbar(shade, ax=axis, label="units that are on", shrink=0.8)
    title = f"{len(regions):,} linear regions"
    if network is not None:
        title += "; the thick line is where the classes meet"
        _paint_borders(axis, network, np.linspace(x0, x1, 300), np.linspace(y0, y1, 300), ink)
    if points is not None and labels is not None:
        for k, name in enumerate(classes):
            mark, colour = "o^sDvX"[k % 6], (COLOURS[1], COLOURS[5], *COLOURS[2:5])[k % 5]
            own = points[labels == k].numpy()
            axis.scatter(*own.T, s=26, marker=mark, color=colour, edgecolor="white", linewidth=0.6, label=name)
        axis.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=6, title="class")
    axis.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=columns[0], ylabel=columns[1], title=title)


def _paint_borders(axis: Any, network: Rectifier, x: Any, y: Any, ink: Any) -> None:
    a, b = np.meshgrid(x, y)
    scores = network(np.stack([a.ravel(), b.ravel()], axis=1))
    if scores.shape[1] < 2:
        return
    ahead = [scores[:, k] - np.delete(scores, k, axis=1).max(1) for k in range(scores.shape[1])]
    for by in ahead[1:] if len(ahead) == 2 else ahead:
        if by.min() < 0 < by.max():
            axis.contour(a, b, by.reshape(a.shape), levels=[0], colors=[ink], linewidths=2.5)


@painter(LineRegions)
def paint_line(axis: Any, regions: LineRegions) -> None:
    """The function of each output over the line, with its breaks."""
    breaks = regions.breaks if len(regions.breaks) else np.zeros(1)
    margin = 0.2 * float(np.ptp(breaks)) or 1.0
    ends = np.array([breaks[0] - margin, *regions.breaks, breaks[-1] + margin])
    pieces = np.array([0, *range(len(regions))])  # at each end and break, the piece on its left
    values = regions.slopes[pieces] * ends[:, None] + regions.heights[pieces]
    for k in range(values.shape[1]):
        axis.plot(ends, values[:, k], color=COLOURS[k % 7], lw=2, label=f"output {k}")
        axis.scatter(ends[1:-1], values[1:-1, k], s=14, color=COLOURS[k % 7])
    axis.set(xlabel="place on the line", ylabel="output", title=str(regions))
    axis.grid(alpha=0.6)
    axis.legend()
