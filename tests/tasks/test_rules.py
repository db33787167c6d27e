"""Settings that follow from the data, and a network that is compared with its baselines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import recurra as rc
from recurra.tasks import texts
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
    assert "the run does not predict with it alone" in str(lost)
    won = Comparison("nats", False, 1.3, {"a": 1.6, "b": 1.4}, "Try.")
    assert won.lost_to is None
    assert "Try" not in str(won)


class TestOfData:
    """What the rules of recipes make of data."""

    def test_a_short_series_has_a_short_horizon(self, tmp_path: Path) -> None:
        series = (torch.arange(144.0) + 10 * torch.sin(torch.arange(144.0) * torch.pi / 6))[:, None]
        run = rc.train("forecast", data=series, steps=2, out=tmp_path / "run", progress="none")
        assert run.settings.backtest.horizon == 10  # half of the 21 steps that are kept for the test
        with pytest.raises(rc.RecurraError, match="fewer than the horizon of 24"):
            rc.train("forecast", data=series, steps=2, horizon=24, out=tmp_path / "other", progress="none")

    def test_a_baseline_that_explodes_when_it_is_drawn_is_left_out(self, tmp_path: Path) -> None:
        """Channels that are functions of each other: what fits them best is unstable beside its noise."""
        random = torch.Generator().manual_seed(0)
        steps = 0.02 * torch.randn(203, 1, generator=random)
        both = torch.cat([1950 + torch.arange(203)[:, None] / 4, (7 + (0.008 + steps).cumsum(0)).exp()], dim=1)
        run = rc.train("forecast", data=both, steps=10, out=tmp_path / "run", progress="none")
        network, naive, *_ = run.evaluate().scores.values()
        assert network["mae"] < naive["mae"]
        assert network["rmse"] < naive["rmse"]

    @pytest.mark.parametrize(("words", "tokens"), [(20, "word"), (10_000, "char")])
    def test_words_that_were_never_learned_are_no_tokens(self, tmp_path: Path, words: int, tokens: str) -> None:
        pairs = [(f"w{k % words} w{k // words}", f"v{k % words}") for k in range(400)]
        run = rc.train("translate", data=pairs, steps=1, hidden_size=8, out=tmp_path / "run", progress="none")
        assert run.settings.data.tokens == tokens

    def test_names_without_room_for_soft_targets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(texts, "MOST_NUMBERS", 1000)
        lines = ["anna", "otto", "emma", "ida"] * 100
        run = rc.train("names", data=lines, steps=1, hidden_size=8, out=tmp_path / "run", progress="none")
        assert run.settings.soft_targets == 0
        stream = rc.train(
            "names", data=lines, sequences=False, truncation="every:8", steps=1, hidden_size=8, progress="none"
        )
        assert stream.settings.soft_targets == 0.3  # idle, and not in the way

    def test_numbers_with_fractions_are_no_classes(self, tmp_path: Path) -> None:
        series, values = torch.randn(50, 6, 1), torch.randn(50).tolist()
        with pytest.raises(rc.DataError, match="take the recipe regression"):
            rc.train("classify", data=(list(series), values), out=tmp_path / "run", progress="none")
