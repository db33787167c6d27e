"""The recipe tree: made-up trees and a person's own, from the command line, resumed, judged by depth, and asked wrongly."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra.cli.main import run
from recurra.data.reviews import reviews
from recurra.data.trees import write_expression
from recurra.errors import OptionError
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.recipe import follow_data
from recurra.tasks.training_run import train_run
from recurra.tasks.tree import TreeTask, nodes_by_level, score_trees
from recurra.training.events import Step, Validated
from tests.cli.test_train import outcome, refused

SMALL = [
    "model.hidden_size=16",
    "model.embedding_size=8",
    "training.batch_size=32",
    "training.steps=12",
    "training.warmup=2",
    "training.validate_every=6",
    "training.save_every=4",
]
MADE_UP = ["data.count=200", "data.depth=2"]


def make_task(*extra: str) -> TreeTask:
    made = find_recipe("tree").configure([*SMALL, *MADE_UP, *extra])
    assert isinstance(made, TreeTask)
    return made


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with trees whose label says whether there are more a than b under a node."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)

    def tree(depth: int) -> tuple[str, int]:
        if depth == 0 or draw.random() < 0.2:
            letter = draw.choice("ab")
            return f"({'a' if letter == 'a' else 'b'} {letter})", 1 if letter == "a" else -1
        parts = [tree(depth - 1) for _ in range(draw.randint(1, 3))]
        total = sum(value for _, value in parts)
        return f"({'a' if total > 0 else 'b'} {' '.join(text for text, _ in parts)})", total

    (tmp_path / "trees.txt").write_text("\n".join(tree(3)[0] for _ in range(200)) + "\n")
    return tmp_path


@pytest.mark.parametrize("task", ["listops", "logic"])
@pytest.mark.parametrize("labels", ["every", "root"])
def test_a_few_steps_train(task: str, labels: str) -> None:
    more = ("training.steps=30", "training.learning_rate=0.02", "training.validate_every=15")
    trainer = make_task(f"data.task={task}", f"data.labels={labels}", *more).trainer()
    events = list(trainer.events())
    steps = [event for event in events if isinstance(event, Step)]
    valid = [event.valid for event in events if isinstance(event, Validated)]
    assert not any(step.skipped for step in steps)
    assert steps[-1].loss < 0.9 * steps[0].loss
    assert len(valid) == 2
    if labels == "root":
        assert sum(step.tokens for step in steps[:7]) == 200  # an epoch counts each tree once


def test_accuracy_by_depth_two_levels_deeper() -> None:
    made = make_task("data.labels=root")
    answer = made.evaluate(made.make_model())
    assert list(answer.scores) == ["fold lstm-16", "most frequent class", "bag of tokens"]
    for row in answer.scores.values():
        assert list(row) == ["nats", "accuracy", "roots", *(f"depth {k}" for k in (1, 2, 3, 4))]
        assert row["roots"] == pytest.approx(sum(row[f"depth {k}"] for k in (1, 2, 3, 4)) / 4)
    assert answer.count == 4 * 500
    assert sorted(set(made.woods.train.depths.tolist())) == [1, 2]


def test_scores_of_a_model_that_knows_the_answer() -> None:
    made = make_task("data.path=none", "data.task=logic")
    batches = made.make_batches(made.woods.test, training=False)

    class Oracle(torch.nn.Module):
        def forward(self, forest):  # type: ignore[no-untyped-def]
            return 30 * torch.nn.functional.one_hot(forest.labels, 2).float()

    scores = score_trees(Oracle(), batches, groups=nodes_by_level)
    assert all(score.accuracy == 1 for score in scores.values())
    assert scores["all"].tokens == made.woods.test.nodes == sum(scores[f"level {k}"].tokens for k in range(5))
    assert scores["roots"].tokens == len(made.woods.test)


class TestAPersonsOwnTrees:
    def test_from_end_to_end(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        more = ["training.steps=80", "training.learning_rate=0.02", "training.validate_every=40"]
        assert run(["train", "tree", "data.path=trees.txt", *SMALL, *more, "--out", "run"]) == 0
        assert "recurra evaluate run   recurra explain run   recurra train --resume run" in capsys.readouterr().err
        assert run(["evaluate", "run", "--json"]) == 0
        network, guess, bag = json.loads(capsys.readouterr().out)["scores"].values()
        assert network["accuracy"] > guess["accuracy"] + 0.1
        assert bag["accuracy"] > guess["accuracy"] + 0.1
        assert {"roots", "level 0", "level 3"} <= set(network)
        (here / "other.txt").write_text("(a (a a) (a a) (b b))\n(z a)\n")
        assert "'z' was not among those that were learned: a, b" in refused(
            ["evaluate", "run", "--data", "other.txt"], capsys
        )
        (here / "other.txt").write_text("(a (a a) (a a) (b b))\n")
        assert run(["evaluate", "run", "--data", "other.txt", "--no-baselines", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["tokens"] == 4
        assert "sample is for a task that writes text" in refused(["sample", "run"], capsys)
        assert "gradients is for a task that has recurrent layers" in refused(["explain", "run", "--gradients"], capsys)

    @pytest.mark.parametrize("composition", ["sum", "plain", "child-sum", "n-ary"])
    def test_every_composition(self, here: Path, composition: str, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ["train", "tree", "data.path=trees.txt", f"model.composition={composition}", *SMALL, "--out", "run"]
        assert run(asked) == 0
        assert run(["evaluate", "run"]) == 0
        assert composition in capsys.readouterr().out

    def test_resumed_to_the_same_numbers(self, here: Path, cut_off: Any) -> None:
        asked = ["train", "tree", "data.path=trees.txt", "model.dropout=0.2", *SMALL]
        assert run([*asked, "--out", "one"]) == 0
        with cut_off():
            assert run([*asked, "--out", "two"]) == 0
        assert run(["train", "--resume", "two"]) == 0
        first, second = outcome(here / "one"), outcome(here / "two")
        assert first == second

    def test_json_and_source(self, here: Path) -> None:
        nodes = [{"label": "ab"[k % 2], "children": ["x" * (k % 2 + 1), "y"]} for k in range(40)]
        (here / "t.jsonl").write_text("\n".join(json.dumps(node) for node in nodes))
        assert run(["train", "tree", "data.path=t.jsonl", "data.labels=root", *SMALL, "--out", "j"]) == 0
        (here / "source/one").mkdir(parents=True)
        for k in range(20):
            (here / f"source/one/f{k}.py").write_text(f"def f(a):\n    return a + {k}\n")
            (here / f"source/g{k}.py").write_text(f"class C:\n    def g(self):\n        print({k})\n")
        assert run(["train", "tree", "data.path=source", *SMALL, "--out", "p"]) == 0

    def test_deeper_than_pythons_recursion(self, here: Path) -> None:
        """Read, learned from and judged."""
        depth = 5000
        assert depth > sys.getrecursionlimit()
        deep = "(a " * depth + "x" + ")" * depth
        (here / "deep.txt").write_text("\n".join([deep, *["(a x)", "(b y)"] * 5]) + "\n")
        few = ("training.steps=1", "training.batch_size=11", "data.labels=root", "model.composition=child-sum")
        made = find_recipe("tree").configure([*SMALL, "data.path=deep.txt", *few, "seed=2"])
        assert int(made.woods.train.depths.max()) == depth - 1
        trainer = made.trainer()
        first = next(trainer.events())
        assert isinstance(first, Step)
        assert not first.skipped
        assert made.evaluate(trainer.model, data="deep.txt", baselines=False).count == 11


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "(1 (0 a) (1 b))\n(1 (0 a) (1 b)\n",
                "trees.txt, line 2, column 1: the bracket that opens here is never closed",
            ),
            (
                "(1 (0 a) (1 b))\n(1 (0 a) (1 b)))\n",
                "trees.txt, line 2, column 16: a bracket is closed that was never opened",
            ),
        ],
    )
    def test_brackets_by_line_and_column(
        self, here: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (here / "trees.txt").write_text(text)
        assert said in refused(["train", "tree", "data.path=trees.txt", "--out", "run"], capsys)
        assert not (here / "run").exists()

    def test_too_few_trees(self, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (here / "trees.txt").write_text("(1 a)\n")
        assert "has 1 trees: too few" in refused(["train", "tree", "data.path=trees.txt", "--out", "run"], capsys)

    @pytest.mark.parametrize(
        ("setting", "said"),
        [
            ("data.task=lists", "data.task 'lists' does not exist"),
            ("data.labels=all", "data.labels 'all' does not exist"),
            ("data.depth=0", "data.depth must be at least 1"),
            ("model.composition=childsum", "Did you mean 'child-sum'"),
            ("model.arity=0", "model.arity must be at least 1"),
            ("training.truncation=every:8", "is for sequences"),
            ("training.feeding=free", "is for sequences"),
            ("engine=eager", "level by level"),
            ("dtype=bfloat16", "dtype 'bfloat16' does not exist"),
        ],
    )
    def test_settings(self, setting: str, said: str) -> None:
        with pytest.raises(OptionError, match=said):
            make_task(setting)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            (["model.cell=delayed"], "several steps back"),
            (["model.composition=child-sum", "model.cell=gru"], "takes no cell"),
            (["model.arity=2"], "any number of children"),
        ],
    )
    def test_models(self, settings: list[str], said: str) -> None:
        with pytest.raises(OptionError, match=said):
            make_task(*settings).make_model()

    def test_a_window_of_tokens(self, tmp_path: Path) -> None:
        run = train_run(make_task(), None, out=tmp_path / "run")
        with pytest.raises(OptionError, match="window is not for tree"):
            run.evaluate(window=3)


class TestRule:
    """Settings that follow from a file's trees."""

    def derived(self, *settings: str) -> dict[str, object]:
        made = find_recipe("tree").configure(list(settings))
        return {each.key: each.value for each in follow_data(made)}

    def test_binary_parses(self, tmp_path: Path) -> None:
        path = tmp_path / "reviews.txt"
        path.write_text("\n".join(map(write_expression, reviews(100))))
        found = self.derived(f"data.path={path}", "data.valid=0.2")
        assert found["model.composition"] == "n-ary"
        assert found["model.hidden_size"] == 64
        assert found["model.dropout"] == 0.5
        assert found["training.steps"] == 1000
        assert found["training.validate_every"] == 50
        found = self.derived(f"data.path={path}", "training.batch_size=10", "training.steps=30", "model.dropout=0")
        assert "training.steps" not in found
        assert found["training.validate_every"] == 30
        assert not {"model.dropout", "training.batch_size"} & set(found)

    def test_six_epochs_of_many(self) -> None:
        found = self.derived("data.task=reviews", "data.count=6400")
        assert found["training.batch_size"] == 32
        assert found["model.dropout"] == 0.2
        assert found["training.steps"] == 6 * 200
        assert found["training.validate_every"] == 200

    def test_unseen_tokens_of_many_trees(self, tmp_path: Path) -> None:
        """What an unseen token means is learned from those seen once; tokens with given vectors are all kept."""
        many = ["data.task=reviews", "data.count=200"]
        assert self.derived(*many)["data.min_count"] == 2
        assert "data.min_count" not in self.derived("data.task=reviews", "data.count=199")
        assert "data.min_count" not in self.derived(*many, "data.min_count=1")
        vectors = tmp_path / "vectors.txt"
        vectors.write_text("w1 0.5 0.5\nw2 0.1 0.2\n")
        assert "data.min_count" not in self.derived(*many, f"data.embeddings={vectors}")

    def test_other_trees(self, here: Path) -> None:
        assert "model.composition" not in self.derived("data.path=trees.txt")
        assert self.derived("data.count=20", "data.depth=2") == {}

    def test_reviews_have_no_depth(self) -> None:
        with pytest.raises(OptionError, match="a review is as deep as its parse"):
            make_task("data.task=reviews", "data.depth=3")


def test_a_network_is_compared_with_its_baselines() -> None:
    made = find_recipe("tree").configure([*SMALL, "data.task=reviews", "data.count=100"])
    found = made.compare(made.make_model())
    assert list(found.baselines) == ["most frequent class", "bag of tokens"]
    assert found.lost_to is not None  # nothing has been learned
    assert found.network < found.baselines["most frequent class"]
    rows = made.evaluate(made.make_model()).scores
    assert {"roots", "level 0", "level 6+"} <= set(rows["bag of tokens"])


@pytest.mark.slow
def test_reviews_by_the_recipes_defaults() -> None:
    """A few thousand sentences: far above a bag of words, at roots and at all nodes."""
    made = find_recipe("tree").configure(["data.task=reviews", "data.count=4000"])
    follow_data(made)
    trainer = made.trainer()
    for event in trainer.events():
        assert not isinstance(event, Step) or not event.skipped
    network, _, bag = made.evaluate(trainer.evaluated).scores.values()
    assert network["roots"] > bag["roots"] + 0.1
    assert network["accuracy"] > bag["accuracy"] + 0.02


@pytest.mark.slow
def test_list_operations_by_the_recipes_defaults() -> None:
    """Trees that were never seen, of the depth that was learned and two levels deeper."""
    made = find_recipe("tree").configure([])
    trainer = made.trainer()
    for event in trainer.events():
        assert not isinstance(event, Step) or not event.skipped
    scores = made.evaluate(trainer.evaluated).scores["fold lstm-128"]
    assert scores["depth 4"] >= 0.98
    assert scores["depth 6"] >= 0.90
