"""`recurra units`: on the screen, as JSON and as a page; labels of your own; and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recurra.cli.main import run
from tests.report.conftest import train  # noqa: F401  a fixture

Train = Callable[..., Path]


@pytest.fixture
def source(train: Train, capsys: pytest.CaptureFixture[str]) -> Path:  # noqa: F811
    made = train("python-source")
    capsys.readouterr()
    return made


def test_what_was_found_and_what_was_not(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["units", str(source), "--json", "--html", "units.html"]) == 0
    rows = {row["label"]: row for row in json.loads(capsys.readouterr().out)["labels"]}
    assert {"inside-string", "inside-comment", "bracket-depth", "indentation-depth", "position-in-line"} <= set(rows)
    assert {"inside-def", "inside-class", "line-end"} <= set(rows)
    for row in rows.values():
        better = row["units"][0]["score"] >= max(row["shifted_labels"], row["untrained"]) + 0.1
        assert row["found"] == better
        assert (row["loss_without"] is not None) == row["found"]
        assert len(row["units"]) == len(row["probe"]["units"]) == 5
    assert "five units" in Path("units.html").read_text()
    assert run(["units", str(source), "--label", "inside-string", "--states"]) == 0
    out = capsys.readouterr().out
    assert "inside-string" in out
    assert "bracket-depth" not in out


def test_one_unit_over_a_text(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.py").write_text('x = "a"  # b\n')
    asked = ["units", str(source), "--unit", "0.c.2", "--text", "other.py", "--label", "inside-string"]
    assert run([*asked, "--html", "unit.html"]) == 0
    assert 'x = "a"' in capsys.readouterr().out
    assert "<u>" in Path("unit.html").read_text()
    assert run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "".join(found["symbols"]) == 'x = "a"  # b'  # the last one is a target only
    assert len(found["values"]) == len(found["symbols"])


def test_a_label_of_your_own(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "def vowels(text):\n    return [c in 'aeiou' for c in text]\n\ndef short(text): return []\n"
    )
    assert run(["units", str(source), "--label", "mine.py:vowels", "--json"]) == 0
    assert [row["label"] for row in json.loads(capsys.readouterr().out)["labels"]] == ["vowels"]


def test_a_label_from_a_table(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "for x in y: (z)\n" * 40
    Path("other.txt").write_text(text)
    rows = [f"{int(sign == 'x')}\t{'vowel' if sign in 'aeiou' else 'other'}" for sign in text]
    Path("labels.tsv").write_text("\n".join(["is-x\tkind", *rows]))
    asked = ["--label", "labels.tsv:is-x", "--label", "labels.tsv:kind=vowel", "--label", "line-end"]
    assert run(["units", str(source), "--text", "other.txt", *asked, "--json"]) == 0
    labels = [row["label"] for row in json.loads(capsys.readouterr().out)["labels"]]
    assert labels == ["is-x", "kind=vowel", "line-end"]
    assert run(["units", str(source), "--text", "other.txt", *asked[:2], "--unit", "0.c.2", "--html", "x.html"]) == 0
    assert Path("x.html").read_text().count("<u>") == 40 + 1  # and the legend
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--label", "inside-strin"], "Did you mean 'inside-string'?"),
        (["--label", "gone.py:vowels"], "no file"),
        (["--label", "mine.py:vowel"], "has no function"),
        (["--label", "mine.py:short"], "a number for each"),
        (["--label", "mine.py:broken"], "failed on a text"),
        (["--label", "labels.tsv"], "FILE.tsv:COLUMN"),
        (["--label", "labels.txt:x"], "FILE.tsv:COLUMN"),
        (["--label", "labels.tsv:x"], "Add --text FILE"),
        (["--label", "labels.tsv:x", "--text", "labels.tsv"], "has 1 rows below the first"),
        (["--unit", "0.c.99"], "indices 0 to 3"),
        (["--text", "gone.txt"], "does not exist"),
        (["--html", "nowhere/units.html"], "cannot be written"),
    ],
)
def test_what_is_refused(source: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text("def short(text): return []\ndef broken(text): return text.x\n")
    Path("labels.tsv").write_text("x\n1\n")
    assert run(["units", str(source), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_a_run_without_text(train: Train, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    folder = train("flip-flop")
    capsys.readouterr()
    assert run(["units", str(folder)]) == 2
    assert "is a language model, whose units are shown over text; flip-flop is not one" in capsys.readouterr().err
