"""Labels from the command line: train, evaluate with a picture, predict, resume; and how each mistake is answered."""

import json
import signal
from pathlib import Path

import pytest

from recurra.cli.main import run
from recurra.training.loop import Trainer
from tests.cli.test_train import files, outcome, refused
from tests.tasks.test_classify import write_series, write_tags, write_texts

SMALL = [
    "model.hidden_size=8",
    "training.warmup=2",
    "training.validate_every=5",
    "training.save_every=5",
    "engine=eager",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "words.csv")
    write_series(tmp_path / "series.ts")
    write_tags(tmp_path / "tags.conll")
    return tmp_path


def train(recipe: str, path: str, *extra: str, steps: int = 10, out: str = "run") -> list[str]:
    return ["train", recipe, f"data.path={path}", *SMALL, f"training.steps={steps}", *extra, "--out", out]


@pytest.mark.parametrize("path", ["words.csv", "series.ts"])
def test_train_evaluate_predict(here: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    assert run(train("classify", path)) == 0
    assert "recurra predict run" in capsys.readouterr().err
    assert run(["evaluate", "run", "--plot", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "test"
    assert ("bag of tokens" in found["scores"]) == (path == "words.csv")  # numbers have no bag
    assert ("kernel ridge" in found["scores"]) == (path == "series.ts")
    assert list(found["scores"].pop("nearest neighbour", ["accuracy", "macro F1"])) == ["accuracy", "macro F1"]
    assert all(set(row) == {"accuracy", "macro F1", "nats", "AUC"} for row in found["scores"].values())
    assert sum(map(sum, found["confusion"]["counts"])) == found["tokens"]
    assert (here / "run/explain/confusion.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (here / "run/explain/confusion.svg").read_text()
    assert run(["evaluate", "run", "--data", path]) == 0
    assert f"{path}: " in capsys.readouterr().out
    assert run(["predict", "run", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert run(["predict", "run", path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["predictions"]
    assert len(lines) == len(rows) == found["tokens"] * 10
    assert lines == [f"{row['label']}\t{row['probability']:.4f}" for row in rows]
    assert run(["predict", "run"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == found["tokens"]


def test_predict_needs_no_labels(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(train("classify", "words.csv")) == 0
    (here / "words.csv").rename(here / "gone.csv")
    (here / "new.csv").write_text("nr,word\n1,aba\n2,\n3,ab?c\n")
    (here / "new.txt").write_text("aba\nab\n")
    capsys.readouterr()
    for name, count in (("new.csv", 3), ("new.txt", 2)):
        assert run(["predict", "run", name]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count


def test_predict_answers_every_line_of_a_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(train("classify", "words.csv")) == 0
    (here / "new.txt").write_text("aba\n\n \nab\n\n")
    (here / "same.txt").write_text("ab\naba\n")
    capsys.readouterr()
    assert run(["predict", "run", "new.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(len(line.split("\t")) == 2 for line in lines)
    assert lines[1] == lines[4]
    assert run(["predict", "run", "same.txt"]) == 0
    assert capsys.readouterr().out.splitlines() == [lines[3], lines[0]]


def test_tags(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(train("tag", "tags.conll")) == 0
    (here / "new.conll").write_text("x\ny\n\nz\n")
    capsys.readouterr()
    assert run(["predict", "run", "new.conll"]) == 0
    assert [len(line.split()) for line in capsys.readouterr().out.splitlines()] == [2, 1]
    assert run(["evaluate", "run"]) == 0
    assert "steps" in capsys.readouterr().out


def test_a_run_that_stopped_goes_on_to_the_same_bytes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(train("classify", "words.csv", out="whole")) == 0
    advance = Trainer.advance

    def stop(self: Trainer, batch: object) -> None:
        advance(self, batch)
        if self.step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stop)
        assert run(train("classify", "words.csv")) == 0
    assert run(["train", "--resume", "run"]) == 0
    assert outcome(here / "run") == outcome(here / "whole")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("text,label\n", "no row"),
        ("a,b,c\nx,y,z\n", "Found: a, b, c"),
        ("text,label\n" + "x,y\n" * 20, "one class only"),
        ("label,t1,t2\n" + "a,?,?\nb,?,\n" * 20, "channel 1 of 1 has no value"),
    ],
    ids=["empty", "no row", "columns", "one class", "missing"],
)
def test_data_that_is_refused(here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (here / "bad.csv").write_text(text)
    before = files(here)
    assert words in refused(train("classify", "bad.csv"), capsys)
    assert files(here) == before


def test_other_refusals(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "@classLabel true a b\n@data\n"
    for text, words in (
        (header + "1,2:?,?:a\n3:?:b\n" * 20, "channel 2 of 2 has no value"),
        (header + "1,2:1:a\n", "must have the same number of steps"),
        (header + "1,2:1,2:a\n1,2:a\n", "has 1 channels, but the first one has 2"),
    ):
        (here / "bad.ts").write_text(text)
        assert words in refused(train("classify", "bad.ts"), capsys)
    (here / "other.csv").write_text("word,label\nab,perhaps\n")
    assert "never saw: perhaps" in refused(train("classify", "words.csv", "data.test_path=other.csv"), capsys)
    assert not (here / "run").exists()
    assert run(train("classify", "words.csv")) == 0
    assert "never saw: perhaps" in refused(["evaluate", "run", "--data", "other.csv"], capsys)
    assert "reads text; this file holds numbers" in refused(["predict", "run", "series.ts"], capsys)
    (here / "wrong.csv").write_text("words,label\nab,yes\n")
    assert "no column 'word'" in refused(["predict", "run", "wrong.csv"], capsys)
    assert "no file" in refused(["predict", "run", "nowhere.csv"], capsys)
    for text in ("", "\n\n"):
        (here / "blank.txt").write_text(text)
        said = refused(["predict", "run", "blank.txt"], capsys)
        assert "empty" in said
        assert "labelled" not in said


def test_verbs_that_do_not_fit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["training.batch_size=4", "training.truncation=every:8", "model.embedding_size=8"]
    (here / "text.txt").write_text("the cat sat on the mat. " * 30)
    assert run(["train", "text", "data.path=text.txt", *SMALL, *text, "training.steps=2", "--out", "text"]) == 0
    assert "a task that predicts labels, or what follows in a case; text is not one" in refused(
        ["predict", "text", "words.csv"], capsys
    )
    assert "these scores have neither" in refused(["evaluate", "text", "--plot"], capsys)
    assert run(train("classify", "words.csv")) == 0
    assert "writes text token by token; classify is not one" in refused(["sample", "run"], capsys)
