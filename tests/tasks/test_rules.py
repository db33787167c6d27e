"""Settings that follow from the data, and a network that is compared with its baselines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recurra as rc
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.formal import FormalTask
from recurra.tasks.recipe import Derived
from recurra.tasks.results import Comparison


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def derive(task: Any) -> Iterator[Derived]:
        """model.hidden_size follows from the language"""
        yield Derived("model.hidden_size", 7 * task.settings.data.language, "the language's number")

    monkeypatch.setattr(find_recipe("tomita"), "derive", derive)


@pytest.mark.usefixtures("rule")
class TestRule:
    def test_a_setting_follows_from_the_data_and_is_kept(self, tmp_path: Path, capsys: Any) -> None:
        run = rc.train("tomita", out=tmp_path / "run", language=2, steps=2, progress="lines")
        assert run.settings.model.hidden_size == 14
        assert "from the data: model.hidden_size=14 (the language's number)" in capsys.readouterr().err
        assert rc.open(tmp_path / "run").settings.model.hidden_size == 14
        assert rc.open(tmp_path / "run").resume().settings.model.hidden_size == 14

    def test_what_is_given_stays(self, tmp_path: Path, capsys: Any) -> None:
        given = ["hidden_size", "model.hidden_size"]
        runs = [rc.train("tomita", out=tmp_path / key, steps=1, **{key: 5}) for key in given]
        runs.append(rc.train("tomita", out=tmp_path / "text", settings=["model.hidden_size=5", "training.steps=1"]))
        assert [run.settings.model.hidden_size for run in runs] == [5, 5, 5]
        assert "from the data" not in capsys.readouterr().err


def test_a_network_that_loses_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    made = Comparison("accuracy", True, 0.62, {"bigram": 0.63, "most frequent": 0.4}, "Try more steps.")
    monkeypatch.setattr(FormalTask, "compare", lambda task, model: made, raising=False)
    run = rc.train("tomita", out=tmp_path / "run", steps=1, progress="lines")
    assert run.outcome is not None
    assert run.outcome.comparison == run.compare() == made
    said = capsys.readouterr().err
    assert "The network alone loses to bigram. Try more steps." in said


def test_which_baseline_is_better() -> None:
    lost = Comparison("nats", False, 1.5, {"a": 1.6, "b": 1.4}, "Try.", combined=1.3)
    assert lost.lost_to == "b"
    assert "the run predicts with both combined" in str(lost)
    won = Comparison("nats", False, 1.3, {"a": 1.6, "b": 1.4}, "Try.")
    assert won.lost_to is None
    assert "Try" not in str(won)
