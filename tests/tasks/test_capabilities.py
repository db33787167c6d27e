"""What a task can do is asked without reading its data."""

from pathlib import Path

import pytest

import recurra as rc
from recurra.tasks.capabilities import VERBS, offers, verbs_of

TEXT = "the cat sat on the mat and the dog sat on the log. " * 30


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rc.Run:
    """A language model whose text is gone."""
    monkeypatch.chdir(tmp_path)
    Path("tale.txt").write_text(TEXT)
    settings = {"hidden_size": 4, "steps": 2, "batch_size": 2, "truncation": "every:8", "validate_every": 1}
    made = rc.train("text", data="tale.txt", out="run", progress="none", **settings)
    Path("tale.txt").unlink()
    return rc.open(made.path)


def test_a_run_tells_what_it_can_do_where_its_data_is_gone(run: rc.Run) -> None:
    assert verbs_of(run.task) == ["evaluate", "sample", "score", "units", "embeddings", "orders", "automaton"]
    assert "it can evaluate, sample, score" in str(run)
    assert len(str(run.sample(length=5, seed=0))) == 5


def test_what_it_cannot_do_is_one_line_where_its_data_is_gone(run: rc.Run) -> None:
    with pytest.raises(
        rc.OptionError, match=r"forecast is for a task that .*; text is not one. It can: evaluate, sample"
    ) as e:
        run.forecast()
    assert "\n" not in str(e.value)


def test_every_capability_is_had_by_some_recipe_and_not_by_all() -> None:
    tasks = [recipe.task for recipe in rc.RECIPES.values()]
    for capability in VERBS.values():
        assert 0 < sum(offers(task, capability) for task in tasks) < len(tasks), capability
