"""`recurra bench training`: the loop beside a bare one."""

import json

import pytest

from recurra.cli.main import run


def test_the_ratio_is_that_of_the_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "training", "--size", "2x8x8", "--repeats", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bare_seconds"] > 0
    assert found["loop_seconds"] > 0
    assert 0.2 < found["ratio"] < 20
    assert run(["bench", "training", "--size", "2x8x8", "--repeats", "1"]) == 0
    assert "bare loop" in capsys.readouterr().out


def test_a_size_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "training", "--size", "2x8"]) == 2
    assert "32x128x256" in capsys.readouterr().err
