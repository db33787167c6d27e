"""Times of short calls: every runner at every size, and what disagrees or cannot be run is said."""

import json
from dataclasses import replace

import pytest
import torch

from recurra.benchmarks import short
from recurra.cli.main import run

TINY = ["bench", "short", "--steps", "1,3", "--rows", "2", "--sizes", "16", "--repeats", "1"]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(short, "WHILE", 0.0)


def test_every_runner_is_timed_at_every_size(capsys):
    assert run([*TINY, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agrees"] is True
    assert [(row["shape"], row["what"]) for row in found["rows"]] == [
        ([2, T, 16, 16], what) for T in (1, 3) for what in ("forward", "training")
    ]
    for row in found["rows"]:
        times = {name: spread["median"] for name, spread in row["microseconds"].items()}
        assert list(times) == ["recurra", "nn.LSTM", "nn.LSTMCell", "loop by hand"]
        ours = times.pop("recurra")
        assert row["ratio"] == pytest.approx(min(times.values()) / ours)


def test_a_table_says_how_many_rows_are_slower(capsys):
    assert run(TINY) == 0
    assert "of 4 rows are slower than a rival" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("part", ["outputs", "gradient of inputs"])
def test_a_runner_that_disagrees_is_named_and_the_exit_code_is_1(part, monkeypatch, capsys):
    right = short._cells_runner

    def wrong(*given):
        runner = right(*given)

        def read(found):
            values = runner.read(found)
            return values | {part: torch.full_like(values[part], torch.nan)}

        return replace(runner, read=read)

    monkeypatch.setattr(short, "_cells_runner", wrong)
    assert run(TINY) == 1
    assert "DISAGREES" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--steps", "--rows", "--sizes"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "few"])
def test_what_is_no_size_is_one_line(option, value, capsys):
    assert run(["bench", "short", option, value]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
