"""Rows of cells: any line ends, quoted breaks, and what cannot be read refused by line."""

import pytest

from recurra.data.comma_separated import rows_of, separator_of
from recurra.errors import DataError


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(end: str) -> None:
    assert [row for _, row in rows_of("file", f"a,b{end}1,2{end}", ",")] == [["a", "b"], ["1", "2"]]


def test_quoted_cells_keep_breaks_and_separators() -> None:
    assert list(rows_of("file", 'x,y\n"a\nb","c,d"\n', ",")) == [(1, ["x", "y"]), (3, ["a\nb", "c,d"])]


def test_a_cell_too_long_is_refused() -> None:
    with pytest.raises(DataError, match="line 2, cannot be read as a table: field larger"):
        list(rows_of("file", f"a,b\n{'x' * 200_000},1\n", ","))


def test_the_separator_is_the_most_frequent_one() -> None:
    assert separator_of("\n\na;b;c,d\n") == ";"
