"""Series from CSV files: what is read, and what is refused with its row."""

from pathlib import Path

import pytest
import torch

from recurra.data.clock import UnevenError
from recurra.data.series import Scaling, Series, filled, read_series, read_timed_series
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
        ("1,2\n3\n", r"line 2: 1 cells, but there are 2 columns"),
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
    with pytest.raises(DataError, match="is not UTF-8"):
        read_series(tmp_path / "bytes.csv")


class TestTimed:
    def test_gaps_and_times(self, tmp_path: Path) -> None:
        file = write(tmp_path, "Date,a,b\n2024-01-01,1,\n2024-01-02,NA,4\n2024-01-03,?,nan\n")
        series = read_timed_series(file)
        assert series.names == ("a", "b")
        assert series.values.nan_to_num(-1).tolist() == [[1, -1], [-1, 4], [-1, -1]]
        assert series.clock is not None
        assert series.clock.after(1) == ["2024-01-04"]
        assert read_timed_series(file, ("b",)).names == ("b",)

    def test_a_time_by_another_name_and_one_that_is_a_column(self, tmp_path: Path) -> None:
        file = write(tmp_path, "time,t2,a\n1,2024-01-01,3\n2,2024-01-02,4\n")
        named = read_timed_series(file, ("a", "time"), "t2")
        assert named.names == ("a", "time")
        assert named.clock is not None
        assert named.clock.after(1) == ["2024-01-03"]
        assert read_timed_series(write(tmp_path, "a\n1\n2\n")).clock is None

    @pytest.mark.parametrize(
        ("text", "following"),
        [
            ("Month,a\n1949-01,1\n1949-02,2\n", "1949-03-01"),
            (",a\n0,1\n1,2\n", "2"),
            ("a,YEAR\n5,1950\n7,1951\n", "1952"),
            ("a,week\n5,2024-01-01\n7,2024-01-08\n", "2024-01-15"),
        ],
    )
    def test_a_column_of_times_is_found_by_what_it_holds(self, tmp_path: Path, text: str, following: str) -> None:
        series = read_timed_series(write(tmp_path, text))
        assert series.names == ("a",)
        assert series.clock is not None
        assert series.clock.after(1) == [following]

    def test_counts_that_are_no_steps_stay_values(self, tmp_path: Path) -> None:
        assert read_timed_series(write(tmp_path, "year,a\n1950,1\n1950,2\n1951,3\n")).names == ("year", "a")
        assert read_timed_series(write(tmp_path, "year\n1950\n1951\n")).names == ("year",)

    def test_uneven_steps_are_rows_unless_they_were_asked_for(self, tmp_path: Path) -> None:
        file = write(tmp_path, "day,a\n2024-01-04,1\n2024-01-05,2\n2024-01-08,3\n2024-01-09,4\n")
        series = read_timed_series(file)
        assert series.clock is None
        assert series.remarks == ("steps of day are uneven (259200 s where most are 86400 s): each row is one",)
        with pytest.raises(DataError, match="row 4: day 2024-01-08 is 259200 s after the row before"):
            read_timed_series(file, (), "day")
        with pytest.raises(DataError, match="Sort them"):
            read_timed_series(write(tmp_path, "day,a\n2024-01-05,1\n2024-01-04,2\n"))

    def test_uneven_steps_in_a_folder_with_a_long_name(self, tmp_path: Path) -> None:
        """What is too long for a message is cut, and stays the same kind of error."""
        (tmp_path / ("long" * 40)).mkdir()
        file = write(tmp_path / ("long" * 40), "day,a\n2024-01-04,1\n2024-01-05,2\n2024-01-08,3\n2024-01-09,4\n")
        assert "259200 s where most are" in read_timed_series(file).remarks[0]
        with pytest.raises(UnevenError, match="after the row before") as caught:
            read_timed_series(file, (), "day")
        assert len(str(caught.value)) <= 300

    def test_a_text_with_empty_cells_is_left_out(self, tmp_path: Path) -> None:
        file = write(tmp_path, "date,load,note\n2024-01-01,3,holiday\n2024-01-02,4,\n2024-01-03,5,ok\n")
        assert read_timed_series(file).names == ("load",)

    def test_columns_without_a_number_are_left_out_and_named(self, tmp_path: Path) -> None:
        file = write(tmp_path, "date,a,sky\n2024-01-01,1,sun\n2024-01-02,2,rain\n")
        series = read_timed_series(file)
        assert (series.names, series.remarks) == (("a",), ("without sky (no numbers)",))
        with pytest.raises(DataError, match="sky: 'sun' is not a finite number"):
            read_timed_series(file, ("a", "sky"))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("date,a\n2024-01-01,1\nsoon,2\n", "row 3: 'soon' is no time that can be read"),
            ("date,a\n2024-01-01,1\n2024-01-02,one\n", "row 3, a: 'one' is not a finite number"),
            ("date,a\n2024-01-01,inf\n2024-01-02,1\n", "row 2, a: 'inf' is not a finite number"),
            ("date\n2024-01-01\n", "no column of numbers beside 'date'"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(DataError, match=said):
            read_timed_series(write(tmp_path, text))
        with pytest.raises(OptionError, match="no column 'when'"):
            read_timed_series(write(tmp_path, text), (), "when")


def test_gaps_are_filled_with_the_last_known_value() -> None:
    gap = torch.nan
    series = torch.tensor([[gap, 1], [2, gap], [gap, gap], [3, 4]])
    assert filled(series).tolist() == [[0, 1], [2, 1], [2, 1], [3, 4]]
    assert torch.equal(filled(series.T, -1), filled(series).T)


class TestScaling:
    VALUES = torch.tensor([[1.0, 1e9], [2.0, 1e9 + 1], [4.0, torch.nan]], dtype=torch.float64)

    def test_means_and_sizes(self) -> None:
        scaling = Scaling.fit(Series(("a", "b"), self.VALUES), "file")
        shrunk = scaling.shrink(self.VALUES)
        assert shrunk[:, 0].mean().item() == pytest.approx(0, abs=1e-12)
        assert shrunk[:, 0].std().item() == pytest.approx(1)
        assert shrunk[:2, 1].tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
        assert shrunk[2, 1].isnan()

    @pytest.mark.parametrize("log", [True, False])
    @pytest.mark.parametrize("lag", [0, 1, 3])
    def test_there_and_back(self, log: bool, lag: int) -> None:
        """What the network would read of the steps to come, restored from what came before them, is those steps."""
        random = torch.Generator().manual_seed(0)
        values = torch.rand(2, 20, 2, generator=random, dtype=torch.float64) + 0.5
        scaling = Scaling.fit(Series(("a", "b"), values[0]), "file", log=log, lag=lag)
        shrunk = scaling.shrink(values)
        assert shrunk.shape == (2, 20 - lag, 2)
        paths = shrunk[:, None, 12 - lag :].expand(-1, 3, -1, -1)
        restored = scaling.restore(paths, values[:, :12])
        torch.testing.assert_close(restored, values[:, None, 12:].expand(-1, 3, -1, -1))

    def test_changes_of_logarithms(self) -> None:
        scaling = Scaling((0.0,), (1.0,), log=True, lag=1)
        values = torch.tensor([[1.0], [2.0], [-1.0], [8.0], [8.0]], dtype=torch.float64)
        assert scaling.shrink(values)[:, 0].nan_to_num(9).tolist() == pytest.approx([0.6931472, 9, 9, 0])

    @pytest.mark.parametrize(
        ("values", "how", "said"),
        [
            ([[1.0, torch.nan], [2.0, torch.nan]], {}, "file: b has no value in the 2 steps to learn from"),
            ([[1.0, 7.0], [2.0, torch.nan], [2.0, 7.0]], {}, "file: b is always the same in the 3 steps"),
            ([[1.0, 1.0], [3.0, 2.0], [7.0, 3.0]], {"lag": 1}, "the change of b over 1 steps is always the same"),
            ([[1.0, 1.0], [3.0, torch.nan], [7.0, 3.0]], {"lag": 1}, "the change of b over 1 steps is never known"),
            ([[1.0, 1.0], [3.0, 0.0]], {"log": True}, "b has values that are not positive"),
        ],
    )
    def test_channels_without_anything_to_learn(
        self, values: list[list[float]], how: dict[str, int], said: str
    ) -> None:
        with pytest.raises(DataError, match=said):
            Scaling.fit(Series(("a", "b"), torch.tensor(values)), "file", **how)
