"""`recurra explain`: pictures and data in the run folder, sentences on the screen, one line where it cannot be done."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from recurra.cli.main import run
from recurra.data.machine import TRIGGERS
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder

SMALL = [
    "training.batch_size=8",
    "training.warmup=2",
    "engine=eager",
    "training.validate_every=20",
    "training.save_every=20",
]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    settings = ["model.hidden_size=6", "data.length=20", "training.steps=20", *SMALL]
    assert run(["train", "flip-flop", *settings, "--out", "bits"]) == 0
    return tmp_path / "bits"


@pytest.fixture
def fox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fox.txt").write_text("The little brown fox\n" * 20)
    settings = [
        "data.path=fox.txt",
        "data.tokens=word",
        "model.cell=elman",
        "model.hidden_size=5",
        "model.embedding_size=5",
    ]
    learn = ["model.dropout=0", "training.learning_rate=0.05", "training.steps=60", "training.average=none"]
    assert run(["train", "names", *settings, *SMALL, *learn, "--out", "fox"]) == 0
    return tmp_path / "fox"


def test_gradients_and_fixed_points(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["explain", str(memory), "--gradients", "--fixed-points", "--steps", "20", "--starts", "32"]) == 0
    out = capsys.readouterr().out
    assert "the gradient " in out
    assert "fixed point(s)" in out
    made = {file.name for file in (memory / "explain").iterdir()}
    assert {"gradients.json", "gradients.npz", "gradients.svg", "gradients-dark.png", "eigenvalues.svg"} <= made
    assert {"fixed_points.json", "fixed_points.npz"} <= made
    kept = json.loads((memory / "explain" / "fixed_points.json").read_text())
    assert kept["points"]
    assert all(point["residual"] < 1e-12 for point in kept["points"])
    assert run(["explain", str(memory), "--gradients", "--steps", "20"]) == 0  # again: the files are replaced


def test_a_field_with_its_basins(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["explain", str(memory), "--field", "--starts", "32", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["fixed_points"]["basins"] <= 1
    assert {"field.svg", "field.npz", "basins.png", "basins.npz"} <= {f.name for f in (memory / "explain").iterdir()}


@pytest.mark.slow
def test_a_state_machine_is_drawn_with_its_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["model.hidden_size=3", "model.embedding_size=3", "data.length=20", "training.steps=2", *SMALL]
    assert run(["train", "washing-machine", *settings, "--out", "wash"]) == 0
    signs = torch.zeros(len(TRIGGERS), 3)
    signs[1:7] = torch.cat([torch.eye(3), -torch.eye(3)])
    by_hand = {"U": 2 * torch.eye(3), "W": 5 * torch.eye(3), "b": torch.full((3,), 0.2), "embedding.weight": signs}
    change_weights(tmp_path / "wash", lambda name, old: by_hand.get(name.removeprefix("recurrent.layers.0.0."), old))
    capsys.readouterr()
    assert run(["explain", "wash", "--field", "--starts", "16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fixed_points"]["input"] == "none"
    assert found["fixed_points"]["basins"] > 0.99
    assert len(found["automaton"]["states"]) == 8  # three bits, each set by two of the triggers
    assert len(found["automaton"]["transitions"]) == 8 * 3
    assert found["automaton"]["lost"] == 0
    assert {"automaton.svg", "automaton-dark.png", "automaton.npz", "automaton.json"} <= {
        file.name for file in (tmp_path / "wash/explain").iterdir()
    }


def test_the_table_of_the_fox(fox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["explain", str(fox), "--table", "The little brown fox", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["table"]["rows"]
    assert [row["input"] for row in rows] == ["Start", "The", "little", "brown", "fox"]
    assert [row["target"] for row in rows] == ["The", "little", "brown", "fox", "End"]
    assert [row["error"] for row in rows] == ["0"] * 5
    assert (fox / "explain" / "table.html").read_text().count("<tr>") == 6
    assert run(["explain", str(fox), "--table", "The little brown fox"]) == 0
    assert "weighted state" in capsys.readouterr().out


def test_a_symbol_as_the_frozen_input(fox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["explain", str(fox), "--fixed-points", "--input", "brown", "--starts", "16"]) == 0
    assert "input brown:" in capsys.readouterr().out


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_what_cannot_be_explained(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is for a task that is a language model" in refused(["explain", str(memory), "--table", "fox"], capsys)
    assert "flip-flop has: 'zero'" in refused(["explain", str(memory), "--fixed-points", "--input", "fox"], capsys)
    assert "not a run folder" in refused(["explain", "nowhere"], capsys)


def change_weights(run: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
    folder = RunFolder.open(run)
    kept = folder.load("best")
    weights = {name: change(name, value) for name, value in kept.weights.items()}
    with folder.lock():
        folder.save(Checkpoint(kept.step, weights, kept.tensors, kept.facts), best=True)


def test_weights_that_are_no_numbers(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_weights(
        memory, lambda _, value: torch.full_like(value, float("nan")) if value.is_floating_point() else value
    )
    assert "holds NaN or ±inf" in refused(["explain", str(memory), "--gradients", "--steps", "20"], capsys)
    assert "NaN" in refused(["explain", str(memory), "--fixed-points"], capsys)


def test_the_monitor_logs_how_gradients_go_back_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["model.hidden_size=5", "data.length=10", "training.steps=20", *SMALL]
    assert run(["train", "flip-flop", *settings, "--out", "watched", "--monitor", "10"]) == 0
    assert run(["train", "flip-flop", *settings, "--out", "alone"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "watched/metrics.jsonl").read_text().splitlines()]
    looked = [row for row in rows if "gradient_slope" in row]
    assert [row["step"] for row in looked] == [10, 20]
    assert all("largest_lyapunov_exponent" in row for row in looked)
    same = [(tmp_path / name / "checkpoints/last/weights.safetensors").read_bytes() for name in ("watched", "alone")]
    assert same[0] == same[1]
