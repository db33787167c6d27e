"""Kinds of labelled series: sizes as declared, the same from the same seed, every class in them."""

import numpy as np
import pytest

from recurra.data.labelled_tasks import SERIES_KINDS, labelled_series
from recurra.errors import OptionError


@pytest.mark.parametrize("name", SERIES_KINDS)
def test_a_kind_is_as_it_says(name: str) -> None:
    kind = SERIES_KINDS[name]
    series, labels = labelled_series(name, 2 * kind.classes, seed=3)
    assert len(set(labels)) == kind.classes
    assert {each.shape[1] for each in series} == {kind.channels}
    assert all(kind.length[0] <= len(each) <= kind.length[1] for each in series)
    again, other = (
        labelled_series(name, 2 * kind.classes, seed=3)[0],
        labelled_series(name, 2 * kind.classes, seed=4)[0],
    )
    assert all(np.array_equal(a, b) for a, b in zip(series, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(series, other, strict=True))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(OptionError, match="gesture"):
        labelled_series("gestures")
