"""Labels cover neither marks nor each other, and stay within the picture."""

from itertools import combinations

import numpy as np
import pytest

from recurra.plots.labels import Room

pyplot = pytest.importorskip("matplotlib.pyplot")


def test_labels_of_points_that_lie_together_stand_apart() -> None:
    figure, axis = pyplot.subplots(figsize=(6, 5), layout="constrained")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    places = 0.9 + 0.02 * np.random.default_rng(0).standard_normal((8, 2))
    axis.scatter(*places.T)
    room = Room(axis)
    room.keep_free(places)
    for k, place in enumerate(places):
        room.write(f"state {k}", [place], fontsize=10)
    figure.canvas.draw()
    # the text alone: the box of an annotation holds its line too
    boxes = [pyplot.matplotlib.text.Text.get_window_extent(text) for text in axis.texts]
    assert len(boxes) == 8
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    marks = axis.transData.transform(places)
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    assert all(axis.bbox.x0 <= box.x0 and box.x1 <= axis.bbox.x1 for box in boxes)
    pyplot.close(figure)
