"""Convolution: filters over the channels of an image, the map of their sums, and what is pooled; as a picture and as a film."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from recurra.lecture.convolution import Convolution
from recurra.plots.figure import COLOURS, inks, painter


def _size(found: Convolution) -> tuple[float, float]:
    return 14.0, max(4.5, 3.6 * len(found.image) + 0.6)


@painter(Convolution, _size)
def paint_convolution(axis: Any, found: Convolution, *, frame: int | None = None) -> None:
    """From left to right: channels with the window on them, filters, the map, what is pooled. `frame`: as far as that one."""
    figure = axis.figure
    axis.remove()
    count, last = len(found.image), found.frames - 1 if frame is None else frame
    places = found.map.numel()
    done, squares = min(last + 1, places), max(0, last + 1 - places)
    pools = found.pooled.numel() > 0
    w = found.map.shape[1]
    widths = [found.image.shape[2], found.filters.shape[2], w, *([found.pooled.shape[1]] if pools else [])]
    grid = figure.add_gridspec(count, len(widths), width_ratios=[max(each, 2.5) for each in widths])
    size, here = found.filters.shape[1], found.places[done - 1]
    passing = not squares or frame is None
    for c in range(count):
        own = figure.add_subplot(grid[c, 0])
        _numbers(own, found.image[c], f"channel {c + 1}" if count > 1 else "image", "image")
        if passing:
            _outline(own, here, size, COLOURS[1])
        own = figure.add_subplot(grid[c, 1])
        _numbers(own, found.filters[c], f"filter {c + 1}" if count > 1 else "filter", "filter", colour=COLOURS[1])
    own = figure.add_subplot(grid[:, 2])
    i, j = divmod(done - 1, w)
    terms = [*found.parts[:, i, j].tolist(), *([found.bias] if found.bias else [])]
    here_sum = " ".join(f"{value:+g}" for value in terms).removeprefix("+") + f" = {float(found.map[i, j]):g}"
    title = "map: the sum" + (f"\nhere {here_sum}".replace("-", "−") if passing else "")
    _numbers(own, found.map, title, "map", done)
    if passing:
        _outline(own, (i, j), 1, COLOURS[1])
    if pools:
        p = found.pool_size
        if squares:
            row, column = divmod(squares - 1, found.pooled.shape[1])
            _outline(own, (row * p, column * p), p, COLOURS[2])
        own = figure.add_subplot(grid[:, 3])
        _numbers(own, found.pooled, f"{found.pool}\nof {p} × {p}", "pooled", squares)
        if squares:
            _outline(own, (row, column), 1, COLOURS[2])


def _numbers(
    axis: Any, values: Tensor, title: str, name: str, shown: int | None = None, colour: str = COLOURS[0]
) -> None:
    """A square for each number, the fuller the larger it is; only the first `shown` ones, in the order of reading."""
    from matplotlib.patches import Rectangle

    ink = inks(axis)[1]
    most = float(values.abs().max()) or 1.0
    rows, columns = values.shape
    for place in range(rows * columns):
        row, column = divmod(place, columns)
        value = float(values[row, column])
        known = shown is None or place < shown
        full = (
            {"fc": colour if value > 0 else COLOURS[3], "alpha": 0.65 * abs(value) / most} if known else {"fc": "none"}
        )
        square = Rectangle((column, row), 1, 1, lw=0, **full)
        axis.add_patch(square)
        axis.add_patch(Rectangle((column, row), 1, 1, fc="none", ec=ink, lw=0.6))
        if known:
            square.set_gid(f"{name}-{row}-{column}")
            axis.text(
                column + 0.5, row + 0.5, f"{value:.3g}".replace("-", "−"), ha="center", va="center", size=12, color=ink
            )
    axis.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal")
    axis.axis("off")
    axis.set_title(title, size=13)


def _outline(axis: Any, corner: tuple[int, int], size: int, colour: str) -> None:
    from matplotlib.patches import Rectangle

    axis.add_patch(
        Rectangle((corner[1], corner[0]), size, size, fc="none", ec=colour, lw=3.5, zorder=5 + 1 / size)
    )  # small ones on top
