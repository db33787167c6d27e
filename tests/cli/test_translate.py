"""`recurra translate`: a text or lines, searched or drawn, with a picture of what it attended to, and asked wrongly."""

import io
import json
import sys
from pathlib import Path

import pytest

from recurra.cli.main import run
from tests.cli.test_train import refused

SMALL = [
    "data.count=400",
    "model.context=attention",
    "model.hidden_size=12",
    "model.embedding_size=6",
    "model.predict_length=true",
    "training.batch_size=16",
    "training.steps=30",
    "training.warmup=1",
    "training.validate_every=30",
    "engine=eager",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on sums, trained a little."""
    folder = tmp_path_factory.mktemp("translate")
    assert run(["train", "addition", *SMALL, "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


def typed(text: str | bytes, errors: str = "strict") -> io.TextIOWrapper:
    """Standard input with something in it."""
    data = text if isinstance(text, bytes) else text.encode()
    return io.TextIOWrapper(io.BytesIO(data), "utf-8", errors=errors)


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(["translate", "run", *arguments]) == 0
    return capsys.readouterr().out


def test_a_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(say(capsys, "12+7", "--json"))
    ((one,),) = ([row["translations"] for row in found["texts"]],)
    assert found["texts"][0]["source"] == "12+7"
    assert say(capsys, "12+7") == one[0]["text"] + "\n"
    assert one[0]["log_probability"] < 0


def test_lines_of_standard_input(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["1+2", "345+678", "90+1"]
    expected = "".join(say(capsys, text) for text in texts)
    monkeypatch.setattr(sys, "stdin", typed("\n".join(texts)))
    assert say(capsys) == expected
    monkeypatch.setattr(sys, "stdin", typed("\n".join(texts) + "\n"))
    rows = json.loads(say(capsys, "--json"))["texts"]
    assert [row["source"] for row in rows] == texts
    assert "".join(row["translations"][0]["text"] + "\n" for row in rows) == expected


def test_several_by_a_beam(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(say(capsys, "12+7", "--beam", "4", "--n-best", "3", "--json"))["texts"][0]["translations"]
    assert len({row["text"] for row in rows}) == 3
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    lines = say(capsys, "12+7", "--beam", "4", "--n-best", "3").splitlines()
    assert lines == [f"{row['score']:.4f}\t{row['text']}" for row in rows]
    power = say(capsys, "12+7", "--beam", "4", "--length-power", "0", "--json")
    (one,) = json.loads(power)["texts"][0]["translations"]
    assert one["score"] == pytest.approx(one["log_probability"])


def test_drawn_by_a_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = [say(capsys, "12+7", "--sample", "--n-best", "5", "--seed", seed) for seed in ("1", "1", "2")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert say(capsys, "12+7", "--sample", "--top-k", "1") == say(capsys, "12+7")
    assert say(capsys, "12+7", "--sample", "--stop-probability", "1") == "\n"


def test_lengths(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(say(capsys, "123+789", "--length", "2").strip()) <= 2
    predicted = say(capsys, "123+789", "--length", "predicted")
    assert len(predicted.strip()) in (3, 4)
    lengths = {len(say(capsys, "3+78", "--length", "drawn", "--seed", str(seed)).strip()) for seed in range(8)}
    assert len(lengths) > 1


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_picture_of_attention(here: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    pytest.importorskip("matplotlib")
    say(capsys, "12+7", "--attention", f"new/map.{ending}")
    data = (here / f"new/map.{ending}").read_bytes()
    assert data.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    assert sorted(file.suffix for file in (here / "new").iterdir() if file.name.startswith(".writing")) == []


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["12x7"], "'x'"),
            ([" "], "empty"),
            (["1+2", "--beam", "0"], "beam"),
            (["1+2", "--beam", "2", "--n-best", "3"], "wider beam"),
            (["1+2", "--top-k", "3"], "--sample"),
            (["1+2", "--sample", "--beam", "2"], "one of them"),
            (["1+2", "--sample", "--temperature", "0"], "temperature"),
            (["1+2", "--length", "soon"], "predicted or drawn"),
            (["1+2", "--length", "0"], "predicted or drawn"),
            (["--attention", "map.svg"], "give the text"),
            (["1+2", "--attention", "map.gif"], ".svg, .png or .pdf"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_in_one_line(
        self, here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
    ) -> None:
        assert words in refused(["translate", "run", *arguments], capsys)
        assert not (here / "map.pdf").exists()

    def test_an_empty_line_by_its_number(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", typed("1+2\n3+4\n\n5+6\n"))
        assert "line 3: the source is empty" in refused(["translate", "run", "--json"], capsys)

    @pytest.mark.parametrize("errors", ["strict", "surrogateescape"], ids=["usual", "locale C"])
    def test_lines_that_are_not_utf_8(
        self, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, errors: str
    ) -> None:
        monkeypatch.setattr(sys, "stdin", typed(b"1+2\n\xff+4\n", errors))
        assert "standard input, line 2: byte 0xff is not UTF-8" in refused(["translate", "run", "--json"], capsys)

    def test_runs_that_learned_something_else(
        self, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = str(tmp_path / "other")
        small = [setting for setting in SMALL if setting.startswith(("training", "engine"))]
        assert run(["train", "flip-flop", *small, "data.length=4", "--out", out]) == 0
        assert "turns one sequence into another; flip-flop is not one" in refused(["translate", out, "1+2"], capsys)
        assert "writes text token by token; addition is not one" in refused(["sample", "run"], capsys)
        assert "read one sequence step by step; addition is not one. It can: evaluate, translate" in refused(
            ["explain", "run", "--gradients"], capsys
        )

    def test_without_attention_or_lengths(self, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = str(tmp_path / "state")
        settings = [*SMALL, "model.context=state", "model.predict_length=false", "training.steps=2"]
        assert run(["train", "addition", *settings, "--out", out]) == 0
        assert "model.context=attention" in refused(["translate", out, "1+2", "--attention", "map.svg"], capsys)
        assert "model.predict_length=true" in refused(["translate", out, "1+2", "--length", "drawn"], capsys)
        assert not (here / "map.svg").exists()

    def test_a_run_without_its_vocabulary(self, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "bare"
        assert run(["train", "addition", *SMALL, "training.steps=2", "--out", str(out)]) == 0
        (out / "vocabulary.json").unlink()
        assert "vocabulary.json" in refused(["translate", str(out), "1+2"], capsys)
