"""The bench of defaults: a row for every kind, the run beside the network alone and baselines."""

import json

import pytest

from recurra.benchmarks import defaults
from recurra.cli.main import run
from recurra.data.labelled_tasks import SERIES_KINDS


def test_a_kind_is_trained_and_evaluated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write = defaults.KINDS["classify"]()["load"].write
    few = ["training.steps=1", "training.ensemble=2", "model.hidden_size=4"]
    kind = defaults.Kind("few", "accuracy", True, lambda folder: [*write(folder), *few], lambda: {"other": 0.5})
    monkeypatch.setitem(defaults.KINDS, "classify", lambda: {"load": kind})
    assert run(["bench", "defaults", "load", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert list(row["scores"])[:2] == ["the run", "the network alone"]
    assert row["scores"]["kernel ridge"] > 0.85
    assert row["specialist"] == {"other": 0.5}
    assert run(["bench", "defaults", "nothing"]) == 2


def test_every_kind_of_series_is_there() -> None:
    assert list(defaults.KINDS["classify"]()) == list(SERIES_KINDS)
