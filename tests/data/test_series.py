"""Series from CSV files: what is read, and what is refused with its row."""

from pathlib import Path

import pytest
import torch

from recurra.data.series import read_series
from recurra.errors import DataError, OptionError


def write(folder: Path, text: str) -> Path:
    file = folder / "series.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n3,4.5\n", "a;b\n1;2\n\n3;4.5", "a\tb\r\n1\t2\r\n3\t 4.5\r\n", '\ufeff"a","b"\n1,2\n3,"4.5"\n']
)
def test_columns_with_names(tmp_path: Path, text: str) -> None:
    series = read_series(write(tmp_path, text))
    assert series.names == ("a", "b")
    assert torch.equal(series.values, torch.tensor([[1, 2], [3, 4.5]], dtype=torch.float64))


def test_without_names_the_columns_are_counted(tmp_path: Path) -> None:
    series = read_series(write(tmp_path, "1,2\n3,4\n"))
    assert series.names == ("column 1", "column 2")
    assert series.values.shape == (2, 2)


def test_some_columns_in_any_order_and_the_others_may_hold_words(tmp_path: Path) -> None:
    file = write(tmp_path, "day,a,b\nMonday,1,2\nTuesday,3,4\n")
    series = read_series(file, ("b", "a"))
    assert series.names == ("b", "a")
    assert series.values.tolist() == [[2, 1], [4, 3]]
    with pytest.raises(OptionError, match=r"no column 'c'.*Known: a, b, day"):
        read_series(file, ("c",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,x\n", r"row 3, b: 'x' is not a finite number"),
        ("a\n1\n\n\nnan\n", r"row 5, a: 'nan' is not a finite number"),
        ("1,2\n3,\n", r"row 2, column 2: '' is not a finite number"),
        ("1,2\n3\n", r"row 2: 1 cells, where the first row has 2"),
        ("\n\n", "is empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_series(write(tmp_path, text))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_series(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe1\x00")
    with pytest.raises(DataError, match="not text in UTF-8"):
        read_series(tmp_path / "bytes.csv")
