"""Times of a series: even steps of seconds or months, what follows them, and what is refused with its row."""

import pytest

from recurra.data.clock import read_clock
from recurra.errors import DataError


def clock_of(*cells: str):
    return read_clock("series.csv", "when", list(enumerate(cells, start=2)))


@pytest.mark.parametrize(
    ("cells", "following"),
    [
        (("2024-02-27", "2024-02-28"), ["2024-02-29", "2024-03-01"]),
        (("2024-01-01 22:00:00", "2024-01-01 23:00:00"), ["2024-01-02 00:00:00", "2024-01-02 01:00:00"]),
        (("2023-10-01", "2023-11-01", "2023-12-01"), ["2024-01-01", "2024-02-01"]),
        (("2023-04-15", "2023-07-15", "2023-10-15"), ["2024-01-15", "2024-04-15"]),
        (("2021-01-01", "2022-01-01", "2023-01-01"), ["2024-01-01", "2025-01-01"]),
        (("0", "0.5", "1.0"), ["1.5", "2"]),
        (("1949-11", "1949-12", "1950-01"), ["1950-02-01", "1950-03-01"]),
        (("1990Q3", "1990Q4", "1991 q1"), ["1991-04-01", "1991-07-01"]),
        (("2024-01-31", "2024-02-29", "2024-03-31"), ["2024-04-30", "2024-05-31"]),
        (("1990", "1991", "1992"), ["1993", "1994"]),
    ],
)
def test_what_follows(cells: tuple[str, ...], following: list[str]) -> None:
    assert clock_of(*cells).after(2) == following


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("2024-01-01", "yesterday"), "row 3: 'yesterday' is no time that can be read"),
        (("2024-01-01", ""), "row 3: '' is no time"),
        (("2024-01-01", "2024-01-02", "2024-01-02", "2024-01-03"), "row 4: when 2024-01-02 does not come after"),
        (("2024-01-03", "2024-01-02"), "row 3: when 2024-01-02 does not come after"),
        (
            ("2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"),
            "row 4: when 2024-01-04 is 172800 s after the row before, where a step is 86400 s",
        ),
        (("2024-01-01", "2024-01-02", "2024-01-05", "2024-01-03"), "row 5: when 2024-01-03 does not come after"),
        (("2024-01-01",), "1 rows have no step"),
    ],
)
def test_what_is_refused_with_its_row(cells: tuple[str, ...], said: str) -> None:
    with pytest.raises(DataError, match=said):
        clock_of(*cells)
