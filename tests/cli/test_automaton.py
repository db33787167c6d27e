"""`recurra automaton`: the curve, the machine in four forms, and runs that are none."""

import json
from pathlib import Path

import pytest

from recurra.cli.main import run
from tests.cli.test_train import refused

TINY = ["model.hidden_size=8", "training.steps=5", "training.warmup=1", "engine=eager"]
FEW = ["--strings", "30", "--scored", "20", "--most", "12"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("runs")
    machine = ["train", "washing-machine", *TINY, "data.length=20", "--out", str(here / "machine")]
    assert run(machine) == 0
    assert run(["train", "tomita", *TINY, "data.strings=100", "--out", str(here / "tomita")]) == 0
    assert run(["train", "flip-flop", *TINY, "data.length=8", "--out", str(here / "flip-flop")]) == 0
    (here / "text.txt").write_text("so it goes, and so it goes on and on\n" * 40)
    text = [f"data.path={here / 'text.txt'}", "training.batch_size=2", "training.truncation=every:8"]
    assert run(["train", "text", *TINY, *text, "model.embedding_size=4", "--out", str(here / "text")]) == 0
    return here


@pytest.mark.parametrize("method", ["quotient", "learning"])
def test_both_scores_and_the_choice_are_printed(trained: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["automaton", str(trained / "tomita"), "--method", method, *FEW]) == 0
    said = capsys.readouterr().out
    for part in ("chosen: ", "fidelity to the network", "fidelity to the truth", "the true machine has 2 states", "←"):
        assert part in said


def test_every_form_is_written(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    files = {form: tmp_path / f"machine.{form}" for form in ("dot", "mermaid", "svg")}
    options = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    assert run(["automaton", str(trained / "machine"), *FEW, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["states"] == len(found["machine"]["after"]) == len(found["machine"]["says"])
    assert [set(point) for point in found["curve"]] == [{"states", "chosen_by", "network", "truth"}] * len(
        found["curve"]
    )
    assert files["dot"].read_text().startswith("digraph")
    assert files["mermaid"].read_text().startswith("stateDiagram")
    assert files["svg"].read_text().startswith("<svg")
    assert isinstance(found["attractors"], dict)


def test_of_a_language_model_it_is_weighted(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["automaton", str(trained / "text"), *FEW, "--states", "3"]) == 0
    said = capsys.readouterr().out
    assert "chosen: 3 states" in said
    assert "nats a symbol to the network" in said
    assert run(["automaton", str(trained / "text"), *FEW, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "weighted"


def test_one_unit_and_bytes_that_are_no_characters(trained: Path, tmp_path: Path) -> None:
    settings = ["model.hidden_size=1", "training.steps=2", "training.warmup=1", "engine=eager", "data.tokens=byte"]
    text = [f"data.path={trained / 'text.txt'}", "training.batch_size=2", "training.truncation=every:8"]
    assert run(["train", "text", *settings, *text, "--out", str(tmp_path / "one")]) == 0
    assert run(["automaton", str(tmp_path / "one"), *FEW, "--states", "2", "--svg", str(tmp_path / "one.svg")]) == 0
    drawn = (tmp_path / "one.svg").read_text()
    assert "\ufffd" not in drawn
    assert "&lt;byte 2" in drawn


def test_what_has_no_automaton_is_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert "no task of a finite machine" in refused(["automaton", str(trained / "flip-flop")], capsys)
    assert "quotient" in refused(["automaton", str(trained / "tomita"), "--method", "quotients"], capsys)
    assert "language models" in refused(["automaton", str(trained / "tomita"), "--method", "weighted"], capsys)
    assert "not for language models" in refused(["automaton", str(trained / "text"), "--method", "learning"], capsys)
    assert "cannot be written" in refused(
        ["automaton", str(trained / "tomita"), *FEW, "--svg", str(trained / "text.txt/a.svg")], capsys
    )


def test_a_classifier_that_reads_forward_and_one_that_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k:08b}" for k in range(256)]
    (tmp_path / "bits.csv").write_text(
        "text,label\n" + "".join(f"{row},{'odd' if row.count('1') % 2 else 'even'}\n" for row in rows)
    )
    train = ["train", "classify", *TINY, f"data.path={tmp_path / 'bits.csv'}"]
    forward = ["model.bidirectional=false", "model.head=last"]
    assert run([*train, *forward, "--out", str(tmp_path / "forward")]) == 0
    assert run([*train, "--out", str(tmp_path / "both")]) == 0
    assert run([*train, forward[0], "--out", str(tmp_path / "mean")]) == 0
    capsys.readouterr()
    assert run(["automaton", str(tmp_path / "forward"), *FEW, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["symbols"][-2:] == ["0", "1"]
    assert found["fidelity_to_truth"] is None
    assert "bidirectional=false" in refused(["automaton", str(tmp_path / "both")], capsys)
    assert "head=last" in refused(["automaton", str(tmp_path / "mean")], capsys)
