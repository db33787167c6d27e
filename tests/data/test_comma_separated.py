"""Rows of cells: any line ends, quoted breaks, and what cannot be read refused by line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recurra.data.comma_separated import rows_of, separator_of
from recurra.data.events import read_log
from recurra.data.labelled import read_labelled
from recurra.data.number_table import read_table
from recurra.data.pairs import read_pairs
from recurra.data.series import read_series
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


def test_spaces_after_a_separator() -> None:
    assert list(rows_of("file", 'a, "b,c"\n', ",")) == [(1, ["a", "b,c"])]
    assert list(rows_of("file", "a, b\n", ",", keep_spaces=True)) == [(1, ["a", " b"])]


@pytest.mark.parametrize("read", [read_labelled, read_table, read_series, read_log, read_pairs])
@pytest.mark.parametrize("wrong", ['3,"4" 5\n', '3,"4\n5,6\n'], ids=["after a quote", "never closed"])
def test_every_kind_of_table_refuses_quotes_that_do_not_match(
    tmp_path: Path, read: Callable[[Path], Any], wrong: str
) -> None:
    (tmp_path / "a.csv").write_text(f"case,activity\n1,2\n{wrong}")
    with pytest.raises(DataError, match=r"a\.csv, line \d, cannot be read as a table: .* Check the quotes"):
        read(tmp_path / "a.csv")
