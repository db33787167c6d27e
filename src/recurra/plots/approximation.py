"""Sums of ridge functions: the error over the width, and the function beside its approximations."""

from __future__ import annotations

from typing import Any

from recurra.lecture.approximation import Approximation
from recurra.plots.figure import COLOURS, DASHES, inks, painter, plain_ticks


@painter(Approximation, (12, 4.6))
def paint_approximation(axis: Any, found: Approximation) -> None:
    figure = axis.figure
    ink = inks(axis)[1]
    axis.remove()
    flat = found.points.shape[1] == 2
    panels = figure.subplots(1, 3 if flat else 2, width_ratios=(1.3, 1, 1) if flat else (1, 1.2))
    error, *rest = panels
    error.loglog(found.widths, found.largest, color=COLOURS[0], marker="o", lw=2.5, label="largest error")
    error.loglog(found.widths, found.typical, color=COLOURS[1], ls="--", marker="s", lw=2.5, label="root mean square")
    error.set(xlabel="width: number of ridges", ylabel="error", title=f"{found.name}, {found.activation} ridges")
    plain_ticks(error.xaxis, error.yaxis)
    error.grid(alpha=0.6)
    error.legend()
    last = len(found.widths) - 1
    if flat:
        side = round(len(found.points) ** 0.5)
        low, high = float(found.values.min()), float(found.values.max())
        pairs = ("the function", found.values), (f"width {found.widths[last]}", found.approximations[last])
        for panel, (name, values) in zip(rest, pairs, strict=True):
            image = values.reshape(side, side).T.numpy()
            drawn = panel.imshow(image, origin="lower", extent=(0, 1, 0, 1), cmap="cividis", vmin=low, vmax=high)
            panel.set(xlabel="x₁", ylabel="x₂", title=name)
        figure.colorbar(drawn, ax=rest, shrink=0.6)
        return
    (curve,) = rest
    x = found.points[:, 0].numpy()
    curve.plot(x, found.values.numpy(), color=ink, lw=4, alpha=0.35, label="the function")
    for n, k in enumerate(sorted({0, last // 3, last})):
        look = {"color": COLOURS[n], "ls": DASHES[n], "lw": 2}
        curve.plot(x, found.approximations[k].numpy(), label=f"width {found.widths[k]}", **look)
    curve.set(xlabel="x", ylabel="F(x)", title="The function and its approximations")
    curve.grid(alpha=0.6)
    curve.legend()
