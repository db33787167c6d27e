"""Labels from a column of a table: a row for each character, or for each piece of a text; and tables that do not fit."""

from pathlib import Path

import pytest

from recurra.analysis.column_labels import column_name, is_column, read_column
from recurra.errors import RecurraError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def values(named: str, *texts: str) -> list[list[float]]:
    return [each.tolist() for each in read_column(named, texts)]


def test_what_asks_for_a_column() -> None:
    assert is_column("a/b.tsv:tag")
    assert is_column("b.csv.gz:tag")
    assert not is_column("mine.py:vowels")
    assert not is_column("inside-string")
    assert column_name("a.tsv:tag=NOUN") == "tag=NOUN"


@pytest.mark.usefixtures("here")
def test_a_row_for_each_character() -> None:
    Path("a.csv").write_text("stress,other\n1,0\n0.5,0\n-2,0\n")
    assert values("a.csv:stress", "abc") == [[1, 0.5, -2]]
    assert values("a.csv:stress", "a", "", "bc") == [[1], [], [0.5, -2]]
    Path("one.tsv").write_text("x\n1\n0\n")
    assert values("one.tsv:x", "ab") == [[1, 0]]


@pytest.mark.usefixtures("here")
def test_a_row_for_each_piece() -> None:
    Path("words.tsv").write_text("text\ttag\tlength\nthe\tDET\t3\ncat\tNOUN\t3\n.\tSTOP\t1\n")
    assert values("words.tsv:length", " the cat.\n") == [[0, 3, 3, 3, 3, 3, 3, 3, 1, 1]]
    assert values("words.tsv:tag=NOUN", "the cat.") == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert values("words.tsv:tag=NOUN", "the c", "at.") == [[0, 0, 0, 0, 1], [1, 1, 0]]
    Path("signs.tsv").write_text("text\tx\na\t1\n \t2\n\t3\nb\t4\n")  # blanks that stand in rows of their own
    assert values("signs.tsv:x", "a  b") == [[1, 2, 3, 4]]
    Path("equal.csv").write_text("a=b\n1\n")
    assert values("equal.csv:a=b", "x") == [[1]]


@pytest.mark.parametrize(
    ("named", "text", "said"),
    [
        ("gone.tsv:x", "ab", "there is no file"),
        ("t.tsv:tags", "ab", "Did you mean 'tag'?"),
        ("t.tsv:x", "abc", "has 2 rows below the first, but the text has 3 characters"),
        (
            "t.tsv:tag",
            "ab",
            "line 2: 'N' in the column 'tag' is no number. Ask for one of its values instead, as t.tsv:tag=N",
        ),
        ("t.tsv:tag=n", "ab", "is never 'n'"),
        ("ragged.tsv:x", "ab", "line 3: 1 cells"),
        ("words.tsv:x", "the dog", "line 3: 'cat' does not follow in the text, where after 3 characters comes ' dog'"),
        ("words.tsv:x", "the", "line 3: 'cat' does not follow"),
        ("words.tsv:x", "the cat sat", "2 rows are for 7 of 11 characters, and ' sat' comes next"),
        ("empty.tsv:x", "ab", "no"),
        ("infinite.tsv:x", "a", "'inf' in the column 'x' is no number"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_table_that_does_not_fit(named: str, text: str, said: str) -> None:
    Path("t.tsv").write_text("x\ttag\n1\tN\n0\tV\n")
    Path("ragged.tsv").write_text("x\ty\n1\t2\n3\n")
    Path("words.tsv").write_text("text\tx\nthe\t1\ncat\t0\n")
    Path("empty.tsv").write_text("\n")
    Path("infinite.tsv").write_text("x\ninf\n")
    with pytest.raises(RecurraError) as error:
        read_column(named, [text])
    assert said in str(error.value)
