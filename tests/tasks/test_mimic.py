"""Trees of taggers and of event logs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recurra.tasks.catalogue import find_recipe
from recurra.tasks.mimic import grow, held_out, score_tree
from tests.tasks.test_events import write_log


def make(name: str, *settings: str) -> Any:
    return find_recipe(name).configure(["engine=eager", *settings])


class TestTaggers:
    def test_tokens_are_asked_for_by_name(self, tmp_path: Path) -> None:
        words = np.random.default_rng(0).choice(["the", "cat", "sat"], size=(60, 12))
        with open(tmp_path / "a.jsonl", "w") as out:
            for row in words.tolist():
                tags = ["noun" if word == "cat" else "other" for word in row]
                out.write(json.dumps({"tokens": row, "tags": tags}) + "\n")
        task = make("tag", f"data.path={tmp_path}/a.jsonl", "model.hidden_size=8", "training.steps=150")
        trainer = task.trainer()
        list(trainer.events())
        tree = grow(task, trainer.evaluated)
        assert tree.to_text().startswith("'cat'? yes → noun")
        found = score_tree(held_out(task)[1], trainer.evaluated, tree)
        assert (found.leaves, found.path_length, found.fidelity, found.tree_accuracy) == (2, 1.0, 1.0, 1.0)

    def test_numbers_are_those_of_the_file_and_missing_ones_can_be_asked_for(self, tmp_path: Path) -> None:
        random = np.random.default_rng(0)
        with open(tmp_path / "a.jsonl", "w") as out:
            for _ in range(40):
                x = (100 + 10 * random.standard_normal((8, 2))).round(3)
                tags = ["a" if value > 100 else "b" for value in x[:, 0]]
                rows = [[value, None if random.random() < 0.3 else other] for value, other in x.tolist()]
                out.write(json.dumps({"values": rows, "tags": tags}) + "\n")
        task = make("tag", f"data.path={tmp_path}/a.jsonl", "model.hidden_size=4")
        steps = task.steps("train")
        assert steps.features == ("channel 1", "channel 2", "channel 2 missing")
        assert not np.isnan(steps.x).any()
        assert steps.x[:, 0].mean() == pytest.approx(100, abs=2)
        assert set(np.unique(steps.x[:, 2])) == {0.0, 1.0}
        assert len(task.steps("test").x) == 8 * len(task.parts.test)


class TestEventLogs:
    def test_a_tree_reads_activities_attributes_and_times(self, tmp_path: Path) -> None:
        write_log(tmp_path / "log.csv", 120, noise=False)
        settings = ["model.hidden_size=8", "model.embedding_size=4", "model.dropout=0", "training.steps=150"]
        settings += ["training.learning_rate=0.02", "training.average=none", "training.warmup=5"]
        task = make("events", f"data.path={tmp_path}/log.csv", "data.attributes=kind", *settings)
        trainer = task.trainer()
        list(trainer.events())
        model = trainer.evaluated
        steps = task.steps("train")
        assert steps.features[:3] == ("another activity", "check", "close")
        assert "kind = small" in steps.features
        assert steps.features[-1] == "years since 1970"
        ages = steps.x[:, steps.features.index("log seconds since the event before")]
        assert sorted(set(ages.round(3))) == [0.0, pytest.approx(np.log1p(86400), abs=1e-3)]
        logs = torch.cat([said.logits for _, said in task.following(model, task.parts["train"])])
        assert torch.allclose(steps.probabilities(model), logs.exp(), atol=1e-6)
        tree = grow(task, model)
        found = score_tree(task.steps("test"), model, tree)
        assert found.fidelity > 0.85  # after a repair, how many there were before is not in the event itself
        assert found.score == found.accuracy
        assert "(end of case)" in tree.to_text()

    def test_the_penalty(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("recurra.training.tree_penalty.AROUND", 3)
        write_log(tmp_path / "log.csv", 60, noise=False)
        settings = ["model.hidden_size=4", "model.embedding_size=4", "training.steps=50", "training.tree=0.1"]
        task = make("events", f"data.path={tmp_path}/log.csv", *settings)
        trainer = task.trainer()
        list(trainer.events())
        assert trainer.penalty is not None
        assert trainer.penalty.is_ready
