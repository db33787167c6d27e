"""Pairs of sequences: read from one file or two, refused by line number, split by source, and batched."""

import gzip
from datetime import date
from pathlib import Path

import pytest
import torch

from recurra.data.pair_tasks import FORMATS, synthetic_dates, synthetic_sums, write_date
from recurra.data.pairs import Pair, PairBatch, Pairs, read_pairs, split_pairs
from recurra.errors import DataError, OptionError


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


class TestReading:
    def test_two_columns_with_tabs(self, tmp_path: Path) -> None:
        file = write(tmp_path, "pairs.tsv", 'ein "Haus", klein\ta small house\nja\t\n')
        assert read_pairs(file) == [Pair('ein "Haus", klein', "a small house"), Pair("ja", "")]

    def test_two_columns_with_commas_and_quotes(self, tmp_path: Path) -> None:
        file = write(tmp_path, "pairs.csv", '"Haus, klein",a small house\nja,"yes, ""yes"""')
        assert read_pairs(file) == [Pair("Haus, klein", "a small house"), Pair("ja", 'yes, "yes"')]

    def test_two_files_side_by_side(self, tmp_path: Path) -> None:
        one, other = write(tmp_path, "a.de", "eins\nzwei\t2\n"), write(tmp_path, "a.en", "one\ntwo")
        assert read_pairs(one, other) == [Pair("eins", "one"), Pair("zwei\t2", "two")]

    def test_compressed(self, tmp_path: Path) -> None:
        with gzip.open(tmp_path / "pairs.csv.gz", "wt", encoding="utf-8") as file:
            file.write("eins,one\n")
        assert read_pairs(tmp_path / "pairs.csv.gz") == [Pair("eins", "one")]

    def test_separators_that_are_no_line_ends_stay_inside(self, tmp_path: Path) -> None:
        """`str.splitlines` would cut at U+2028 and at a form feed, and shift all pairs that follow."""
        one, other = write(tmp_path, "a", "ei\u2028ns\nzw\x0cei\n"), write(tmp_path, "b", "one\ntwo\n")
        assert [pair.target for pair in read_pairs(one, other)] == ["one", "two"]

    def test_files_with_other_numbers_of_lines(self, tmp_path: Path) -> None:
        one, other = write(tmp_path, "a", "x\ny\nz\n"), write(tmp_path, "b", "x\ny\n")
        with pytest.raises(DataError, match=r"a has 3 lines and .*b has 2"):
            read_pairs(one, other)

    @pytest.mark.parametrize(
        ("name", "text", "line"),
        [
            ("p.tsv", "a\tb\n \tb\nc\td\n", 2),
            ("p.tsv", "a\tb\nb\ta\n\n", 3),
            ("p.csv", 'a,"b\nb"\n,b\n', 3),
        ],
    )
    def test_an_empty_source_by_its_line(self, tmp_path: Path, name: str, text: str, line: int) -> None:
        with pytest.raises(DataError, match=rf"line {line}: the source is empty"):
            read_pairs(write(tmp_path, name, text))

    def test_empty_lines_of_a_source_file_are_counted(self, tmp_path: Path) -> None:
        one, other = write(tmp_path, "a", "x\n\n\n"), write(tmp_path, "b", "x\ny\nz\n")
        with pytest.raises(DataError, match=r"line 2: .*2 such lines"):
            read_pairs(one, other)

    @pytest.mark.parametrize(("text", "found"), [("a\tb\nc\n", 1), ("a\tb\nc\td\te\n", 3)])
    def test_another_number_of_columns(self, tmp_path: Path, text: str, found: int) -> None:
        with pytest.raises(DataError, match=rf"line 2: a pair is two columns with a tab between them; found {found}"):
            read_pairs(write(tmp_path, "p.txt", text))

    @pytest.mark.parametrize(
        ("name", "text"), [("p.txt", "a\tb\tsomeone\nc\t\t\n"), ("p.csv", 'a,b,"some, one"\nc,,\n')]
    )
    def test_further_columns_that_all_lines_have_are_left_out(self, tmp_path: Path, name: str, text: str) -> None:
        assert read_pairs(write(tmp_path, name, text)) == [Pair("a", "b"), Pair("c", "")]

    def test_a_folder(self, tmp_path: Path) -> None:
        write(tmp_path, "a.tsv", "a\tb\n")
        write(tmp_path, "b.tsv", "a\tb\n")
        with pytest.raises(DataError, match="2 files"):
            read_pairs(tmp_path)


PAIRS = [Pair(f"s{k % 50}", f"t{k}") for k in range(100)]


class TestSplitting:
    def test_a_source_is_in_one_part_only(self) -> None:
        parts = split_pairs(PAIRS, 0.1, 0.2, seed=3)
        sources = [{pair.source for pair in part} for part in parts]
        assert [len(each) for each in sources] == [35, 5, 10]
        assert not sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2]
        assert sorted(pair for part in parts for pair in part) == sorted(PAIRS)

    def test_the_seed_decides(self) -> None:
        assert split_pairs(PAIRS, 0.1, 0.2, seed=3) == split_pairs(PAIRS, 0.1, 0.2, seed=3)
        assert split_pairs(PAIRS, 0.1, 0.2, seed=3) != split_pairs(PAIRS, 0.1, 0.2, seed=4)


class TestBatches:
    @pytest.fixture
    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        draw = torch.Generator().manual_seed(0)
        sizes = torch.randint(1, 9, (23, 2), generator=draw).tolist()
        return [(torch.randint(1, 90, (n,), generator=draw), torch.arange(m + 1)) for n, m in sizes]

    def rows(self, batch: PairBatch) -> list[tuple[tuple[int, ...], int]]:
        assert batch.lengths is not None
        return [
            (tuple(row[:n].tolist()), int(m))
            for row, n, m in zip(batch.source, batch.source_lengths, batch.lengths, strict=True)
        ]

    def test_one_pass_has_every_pair_once(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        batches = list(Pairs(pairs, 5, shuffle=False).one_pass())
        found = [row for batch in batches for row in self.rows(batch)]
        assert sorted(found) == sorted((tuple(s.tolist()), len(t) - 1) for s, t in pairs)
        for batch in batches:
            assert batch.all_tokens == batch.tokens == int(batch.lengths.sum())
            past = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
            assert torch.all(batch.source[past] == 0)
            assert torch.all(batch.source[~past] > 0)
            inside = torch.arange(batch.inputs.shape[1]) < batch.lengths[:, None]
            assert torch.equal(batch.targets[inside], batch.inputs[inside] + 1)

    def test_ranks_share_a_batch(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        whole = Pairs(pairs, 5, seed=2)
        shares = [Pairs(pairs, 5, seed=2, rank=rank, world=3) for rank in range(3)]
        for _ in range(7):
            batch = whole.next()
            parts = [share.next() for share in shares]
            assert [row for part in parts for row in self.rows(part)] == self.rows(batch)
            assert {part.all_tokens for part in parts} == {batch.tokens}
            assert {part.source.shape[1] for part in parts} == {batch.source.shape[1]}

    def test_a_saved_place_goes_on(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        one, other = Pairs(pairs, 4, seed=1), Pairs(pairs, 4, seed=1)
        for _ in range(8):
            one.next()
        other.load_state_dict(one.state_dict())
        for _ in range(8):
            assert self.rows(one.next()) == self.rows(other.next())

    @pytest.mark.parametrize(
        ("pairs", "words"),
        [
            ([], "no pair"),
            (
                [(torch.tensor([1]), torch.tensor([1, 2])), (torch.tensor([]), torch.tensor([1, 2]))],
                "source .* number 1",
            ),
            ([(torch.tensor([1]), torch.tensor([1]))], "target .* number 0"),
        ],
    )
    def test_what_is_too_short(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], words: str) -> None:
        with pytest.raises(DataError, match=words):
            Pairs(pairs, 2)


class TestDates:
    @pytest.mark.parametrize(
        ("form", "text"),
        [
            ("{weekday}, {day} {month} {year}", "Tuesday, 4 May 2021"),
            ("{wday} {mon} {day2} {year}", "Tue May 04 2021"),
            ("the {ordinal} of {month} {year}", "the 4th of May 2021"),
            ("{number}/{day}/{year}", "5/4/2021"),
            ("{day2}.{number2}.{year}", "04.05.2021"),
        ],
    )
    def test_a_date_in_some_formats(self, form: str, text: str) -> None:
        assert write_date(date(2021, 5, 4), form) == text

    @pytest.mark.parametrize(
        ("day", "ordinal"),
        [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (12, "12th"), (13, "13th"), (22, "22nd"), (31, "31st")],
    )
    def test_ordinals(self, day: int, ordinal: str) -> None:
        assert write_date(date(2021, 5, day), "{ordinal}") == ordinal

    def test_no_text_has_two_meanings(self) -> None:
        """All formats of days that are easily mistaken for one another."""
        days = [date(year, month, day) for year in (1910, 2011, 2012) for month in range(1, 13) for day in range(1, 29)]
        meanings: dict[str, set[date]] = {}
        for day in days:
            for form in FORMATS:
                meanings.setdefault(write_date(day, form), set()).add(day)
        assert all(len(found) == 1 for found in meanings.values())

    def test_days_and_texts_come_once_and_by_the_seed(self) -> None:
        pairs = synthetic_dates(5000, seed=1)
        assert len({pair.target for pair in pairs}) == len({pair.source for pair in pairs}) == 5000
        assert pairs == synthetic_dates(5000, seed=1)
        assert pairs != synthetic_dates(5000, seed=2)
        assert all(date.fromisoformat(pair.target).isoformat() == pair.target for pair in pairs)

    def test_no_day_is_in_two_parts(self) -> None:
        train, valid, test = ({pair.target for pair in part} for part in split_pairs(synthetic_dates(1000), 0.1, 0.1))
        assert not train & valid | train & test | valid & test

    def test_more_than_there_are(self) -> None:
        with pytest.raises(OptionError, match="73,049"):
            synthetic_dates(73_050)


class TestAddition:
    def test_answers_are_right_and_reversed(self) -> None:
        for pair in synthetic_sums(2000, seed=5):
            a, b = (int(number) for number in pair.source.split("+"))
            assert max(a, b) <= 999
            assert int(pair.target[::-1]) == a + b

    def test_no_two_numbers_come_together_twice(self) -> None:
        pairs = synthetic_sums(55, digits=1)  # all that there are
        sums = {tuple(sorted(int(number) for number in pair.source.split("+"))) for pair in pairs}
        assert sums == {(a, b) for b in range(10) for a in range(b + 1)}
        assert any(a > b for a, b in (map(int, pair.source.split("+")) for pair in pairs))
        with pytest.raises(OptionError, match="1 to 55"):
            synthetic_sums(56, digits=1)

    def test_the_seed_decides(self) -> None:
        assert synthetic_sums(100, seed=1) == synthetic_sums(100, seed=1)
        assert synthetic_sums(100, seed=1) != synthetic_sums(100, seed=2)
