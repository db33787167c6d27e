"""The picture of a benchmark of cells: one panel for each cell, the time of each runner at each size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recurra.plots.figure import find_matplotlib, save


def plot_times(
    times: Mapping[str, Mapping[str, Mapping[str, float]]], label: str, file: str | Path | None = None
) -> Any:
    """`times[cell][runner][size]`, on a logarithmic axis; NaN leaves a gap."""
    find_matplotlib()
    from matplotlib.figure import Figure

    colours: dict[str, str] = {}
    columns = min(3, len(times))
    rows = -(-len(times) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, (cell, runners) in zip(axes.flat, times.items(), strict=False):
        for runner, taken in runners.items():
            colour = colours.setdefault(runner, f"C{len(colours)}")
            panel.plot(list(taken), list(taken.values()), marker="o", color=colour, label=runner)
        panel.set_yscale("log")
        panel.set_title(cell)
        panel.tick_params(axis="x", rotation=40)
        panel.legend(fontsize="small")
    for panel in axes.flat[len(times) :]:
        panel.set_visible(False)
    figure.supylabel(label)
    if file is not None:
        save(figure, Path(file))
    return figure
