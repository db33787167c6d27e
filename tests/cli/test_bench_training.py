"""`recurra bench training`: the loop beside a bare one."""

import json
from collections.abc import Callable

import pytest

from recurra.benchmarks import training
from recurra.cli.main import run


def test_the_ratio_is_that_of_pairs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([9.0, 9.0, 1.0, 2.0, 4.0, 4.0, 2.0, 3.0])  # the first pair warms up

    def seconds(call: Callable[[], None], times: int) -> float:
        call()
        return next(taken)

    monkeypatch.setattr(training, "seconds", seconds)
    assert run(["bench", "training", "--size", "2x8x8", "--repeats", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"size": "2x8x8", "bare_seconds": 2.0, "loop_seconds": 3.0, "ratio": 1.5}


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "training", "--size", "2x8x8", "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    assert "bare loop" in out
    assert "tokens/s" in out


def test_a_size_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "training", "--size", "2x8"]) == 2
    assert "32x128x256" in capsys.readouterr().err
