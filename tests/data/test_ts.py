"""`.ts` files: what they may hold, and how a damaged one is refused."""

import numpy as np
import pytest

from recurra.data.ts import read_ts
from recurra.errors import DataError

HEADER = "# words: about it\n@problemName Two\n@timeStamps false\n@classLabel true a b\n@DATA\n"


def test_channels_lengths_and_missing_values() -> None:
    series, classes = read_ts("x.ts", HEADER + "1,2,?:4,NaN,6:a\n\n7:8:b\n")
    assert classes == ["a", "b"]
    np.testing.assert_array_equal(series[0], [[1, 4], [2, np.nan], [np.nan, 6]])
    np.testing.assert_array_equal(series[1], [[7, 8]])


def test_a_class_is_any_where_none_is_needed_or_named() -> None:
    assert read_ts("x.ts", HEADER + "1,2:?\n", labelled=False)[1] == ["?"]
    assert read_ts("x.ts", HEADER.replace("true a b", "TRUE") + "1,2:Left\n")[1] == ["Left"]


def test_without_classes() -> None:
    series, classes = read_ts("x.ts", "@classLabel false\n@data\n1,2:3,4\n")
    assert classes is None
    np.testing.assert_array_equal(series[0], [[1, 3], [2, 4]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2:a\n", "no line @data"),
        (HEADER.replace("timeStamps false", "timeStamps true") + "(0,1):a\n", "time stamps"),
        (HEADER + "1,2:3,4,5:a\n", "line 6: the channels of one series .* found 2 to 3 steps"),
        (HEADER + "1,2:3,4:a\n1,2:a\n", "line 7: the series has 1 channels, but the first one has 2"),
        (HEADER + "1,2:a\n\n3,4:c\n", "line 8: the class 'c' is none of @classLabel: a, b"),
        (HEADER + "1,2:A\n", "line 6: the class 'A' is none of"),
        (HEADER + "1,two:a\n", "line 6: 'two' is not a finite number"),
        (HEADER + "1,inf:a\n", "'inf' is not a finite number"),
        (HEADER + "a\n", "found none"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_ts("x.ts", text)
