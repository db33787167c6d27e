"""Words on a picture where there is room for them: labels that cover no mark and no other label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Place = npt.NDArray[np.float64]


class Room:
    """What is taken of a picture, in pixels. Made once everything but the labels is drawn and the axes have their limits."""

    def __init__(self, axis: Any):
        figure = axis.figure
        figure.canvas.draw()
        figure.set_layout_engine("none")  # labels must not move what they were placed by
        self.axis, self.renderer = axis, figure.canvas.get_renderer()
        self.unit, self.ground = figure.dpi / 72, figure.get_facecolor()
        legend = axis.get_legend()
        self.taken = [legend.get_window_extent(self.renderer).extents] if legend else []

    def keep_free(self, places: Iterable[Place], points: float = 7) -> None:
        """Nothing is written over these places (of the axes), nor closer than so many points."""
        for place in places:
            middle = self.axis.transData.transform(place)
            self.taken.append(np.concatenate([middle - points * self.unit, middle + points * self.unit]))

    def length(self, path: Place) -> float:
        """Of a line through places of the axes, in pixels."""
        return float(np.linalg.norm(np.diff(self.axis.transData.transform(path), axis=0), axis=1).sum())

    def width(self, words: str, **style: Any) -> float:
        """Of a label, in pixels."""
        return float(2 * self._half(words, **style)[0])

    def _half(self, words: str, **style: Any) -> Place:
        """Half the size of a label."""
        text = self.axis.annotate(words, (0, 0), xycoords="figure pixels", va="center", ha="center", **style)
        half = np.array(text.get_window_extent(self.renderer).size) / 2
        text.remove()
        return half

    def write(self, words: str, anchors: Iterable[Place], shrink: float = 0, **style: Any) -> None:
        """Write at the first free spot near an anchor, with a line that ends `shrink` points before it.

        Where nothing is free, it is written over the first anchor.
        """
        from matplotlib.patheffects import withStroke

        near = [self.axis.transData.transform(anchor) for anchor in anchors]
        size = self._half(words, **style) + 2 * self.unit
        spots = (
            (anchor, spot)
            for distance in range(25)
            for anchor in near
            for spot in _around(anchor, size, 3 * distance * self.unit)
        )
        anchor, spot = next((each for each in spots if self._is_free(each[1], size)), (near[0], near[0]))
        self.taken.append(np.concatenate([spot - size, spot + size]))
        back = self.axis.transData.inverted().transform
        line = {"arrowstyle": "-", "color": "#999999", "lw": 0.7, "shrinkA": 0, "shrinkB": shrink}
        written = self.axis.annotate(
            words, back(anchor), xytext=back(spot), va="center", ha="center", zorder=7, arrowprops=line, **style
        )
        written.set_path_effects([withStroke(linewidth=3, foreground=self.ground)])  # legible over lines

    def _is_free(self, spot: Place, size: Place) -> bool:
        low, high = spot - size, spot + size
        frame = self.axis.bbox
        if low[0] < frame.x0 or low[1] < frame.y0 or high[0] > frame.x1 or high[1] > frame.y1:
            return False
        boxes = np.array(self.taken).reshape(-1, 4)
        over = (boxes[:, :2] < high).all(1) & (boxes[:, 2:] > low).all(1)
        return not bool(over.any())


def _around(anchor: Place, size: Place, distance: float) -> Iterator[Place]:
    """Middles of a label of this half size, ever further from its anchor: on the right first, then all around."""
    if distance == 0:
        yield anchor
        return
    for turn in (0, 8, 2, 14, 4, 12, 6, 10, 1, 15, 3, 13, 5, 11, 7, 9):
        way = np.array([np.cos(turn * np.pi / 8), np.sin(turn * np.pi / 8)])
        yield anchor + way * (size + distance)
