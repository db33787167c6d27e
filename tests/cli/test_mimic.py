"""`recurra mimic` and `recurra bench mimic`: trees drawn and exported, a sweep as a table and a picture, and what is refused."""

import csv
import json
from pathlib import Path

import pytest

from recurra.cli.main import run
from tests.cli.test_train import refused
from tests.tasks.test_signal_noise import SMALL


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recurra.training.tree_penalty.AROUND", 3)
    return tmp_path


def test_the_tree_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "signal-and-noise", *SMALL, "training.tree=0.02", "--out", "run"]) == 0
    assert "recurra mimic run" in capsys.readouterr().err
    rows = [json.loads(line) for line in (here / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "surrogate_error" in row] == [50]
    assert run(["mimic", "run"]) == 0
    out = capsys.readouterr().out
    assert "average path length" in out
    assert "AUC of the network" in out
    folder = here / "run/explain"
    assert (folder / "mimic.dot").read_text().startswith("digraph tree {")
    assert out.startswith((folder / "mimic.txt").read_text())
    for name in ("mimic.svg", "mimic.png", "mimic-dark.svg", "mimic-dark.png"):
        assert (folder / name).stat().st_size > 1000
    assert run(["mimic", "run", "--prune", "--min-leaf", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = json.loads((folder / "mimic.json").read_text())
    assert found["tree"] == kept["tree"]
    assert found["part"] == "test"
    assert found["steps"] == 1200
    assert 0.5 < found["fidelity"] <= 1


@pytest.mark.usefixtures("here")
def test_other_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text("the cat sat on the mat. " * 60)
    small = ["model.hidden_size=4", "training.steps=1", "training.batch_size=2", "training.truncation=every:8"]
    assert run(["train", "text", "data.path=text.txt", *small, "engine=eager", "--out", "run"]) == 0
    capsys.readouterr()
    assert "a class at each step" in refused(["mimic", "run"], capsys)
    assert "expected positive numbers" in refused(["bench", "mimic", "--tree", "0.1,x"], capsys)
    assert "a class at each step" in refused(["bench", "mimic", "text", "data.path=text.txt"], capsys)


def test_a_sweep(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["bench", "mimic", "signal-and-noise", *SMALL, "--seeds", "2", "--l1", "", "--l2", "1", "--tree", "0.05"]
    assert run([*sweep, "--out", "found"]) == 0
    shown = capsys.readouterr()
    assert "best possible (Bayes)" in shown.out
    assert "tree 0.05, seed 1: AUC" in shown.err
    with open(here / "found/penalties.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["penalty"], row["strength"]) for row in rows] == [("none", "0"), ("tree", "0.05"), ("l2", "1")]
    assert rows[0]["chosen"] == "*"
    assert float(rows[1]["surrogate error"]) > 0
    kept = json.loads((here / "found/penalties.json").read_text())
    assert len(kept["runs"]) == 6
    assert kept["best_possible"] > max(point["test"]["score"] for point in kept["points"])
    for name in ("penalties.svg", "penalties-dark.png"):
        assert (here / "found" / name).stat().st_size > 1000
