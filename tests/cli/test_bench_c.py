"""`recurra bench c`: an LSTM as C beside other runners; a run's scores by the C that it is exported as."""

import json

import pytest

import recurra as rc
from recurra.cli.main import run
from recurra.export.c_library import find_c_compiler

pytestmark = pytest.mark.skipif(find_c_compiler() is None, reason="needs a C compiler")


def test_times_and_sizes(capsys):
    assert run(["bench", "c", "--hidden-size", "4", "--repeats", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"C, float32", "C, own math", "C, int8", "Stepper.chunk"} <= found["microseconds"].keys()
    assert all(each["median"] > 0 for each in found["microseconds"].values())
    assert max(found["errors"].values()) < 1e-5
    assert found["sizes"]["float32, this machine"]["weights"] == 4 * (16 * 4 + 16 + 16)


def test_a_run_by_c(tmp_path, capsys):
    rows = [
        f"{case},{what},2024-01-0{1 + k}T10:00:00"
        for case in range(40)
        for k, what in enumerate("abcab"[: 2 + case % 4])
    ]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["case,activity,time", *rows]))
    made = rc.train(
        "events", data=log, steps=10, hidden_size=8, combine="none", out=tmp_path / "run"
    )  # the network alone
    capsys.readouterr()
    assert run(["bench", "c", str(made.path), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert list(scores) == ["model", "C, float32", "C, int8"]
    assert scores["C, float32"]["nats"] == pytest.approx(scores["model"]["nats"], abs=1e-6)
    assert scores["C, int8"]["nats"] != scores["model"]["nats"]
    assert scores["C, int8"]["nats"] == pytest.approx(scores["model"]["nats"], rel=1e-2)


def test_what_is_not_evaluated_in_c(tmp_path, capsys):
    made = rc.train("tomita", steps=2, hidden_size=4, out=tmp_path / "run")
    assert run(["bench", "c", str(made.path)]) == 2
    assert "is not evaluated in C" in capsys.readouterr().err
