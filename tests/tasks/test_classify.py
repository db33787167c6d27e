"""The recipes `classify` and `tag`: parts of the data, what is kept with a run, and what they learn."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from recurra.data.labelled import Labelled
from recurra.errors import DataError, OptionError
from recurra.tasks.catalogue import find_recipe, make_task
from recurra.tasks.labelling import LabelTask, split
from recurra.tasks.settings import from_dict, override, to_dict
from recurra.tasks.training_run import train_run
from recurra.training.events import Validated
from recurra.training.loop import Trainer

SMALL = [
    "model.hidden_size=12",
    "training.steps=80",
    "training.warmup=10",
    "training.learning_rate=0.02",
    "engine=eager",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_texts(file: Path, count: int = 60, seed: int = 0) -> None:
    """A word is `yes` if it begins and ends with the same letter."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("ab") for _ in range(draw.randint(2, 6))) for _ in range(count)]
    file.write_text("word,label\n" + "".join(f"{w},{'yes' if w[0] == w[-1] else 'no'}\n" for w in words))


def write_series(file: Path, count: int = 40, seed: int = 0) -> None:
    """Two channels; the class is the sign of the first one's slope. Some values are missing."""
    random = np.random.default_rng(seed)
    lines = ["@classLabel true up down", "@data"]
    for k in range(count):
        slope, T = (1 if k % 2 else -1), int(random.integers(4, 9))
        first = slope * np.arange(T) + random.normal(size=T)
        values = [f"{v:.3f}" for v in first]
        values[int(random.integers(T))] = "?"
        second = ",".join(f"{v:.3f}" for v in random.normal(size=T))
        lines.append(f"{','.join(values)}:{second}:{'up' if slope > 0 else 'down'}")
    file.write_text("\n".join(lines) + "\n")


def write_tags(file: Path, count: int = 40) -> None:
    """A token is tagged with the token before it."""
    draw = random.Random(0)
    with file.open("w") as out:
        for _ in range(count):
            tokens = [draw.choice("xyz") for _ in range(draw.randint(1, 7))]
            for before, token in zip(["start", *tokens], tokens, strict=False):
                out.write(f"{token}\t{before}\n")
            out.write("\n")


def make(name: str, *settings: str) -> LabelTask:
    made = find_recipe(name).configure([*SMALL, *settings])
    assert isinstance(made, LabelTask)
    return made


def train(task: LabelTask) -> tuple[Trainer, list[float]]:
    trainer = task.trainer()
    return trainer, [event.valid for event in trainer.events() if isinstance(event, Validated)]


class TestSplit:
    def test_every_sequence_once_and_every_class_in_each_part(self) -> None:
        data = Labelled("text", [str(k) for k in range(90)], ["abc"[k // 30] for k in range(90)])
        parts = split(data, 0.1, 0.2, seed=1)
        assert [len(part) for part in parts] == [63, 9, 18]
        assert sorted(int(x) for part in parts for x in part.sequences) == list(range(90))
        for part, each in zip(parts, (21, 3, 6), strict=True):
            assert [part.labels.count(name) for name in "abc"] == [each] * 3
        assert parts[1].sequences != split(data, 0.1, 0.2, seed=2)[1].sequences
        assert parts[1].sequences == split(data, 0.1, 0.2, seed=1)[1].sequences

    def test_tags_are_split_by_sequence(self) -> None:
        data = Labelled("tokens", [["x"]] * 10, [["a"]] * 10)
        assert [len(part) for part in split(data, 0.1, 0.3, seed=0)] == [6, 1, 3]


class TestClassify:
    def test_texts(self, here: Path) -> None:
        write_texts(here / "a.csv", 200)
        task = make("classify", "data.path=a.csv", "model.dropout=0", "model.head=last")
        assert "text from 'word', label from 'label'" in task.about_data
        assert "160 sequences to train on, 20 to validate, 20 to test; 3 char tokens, 2 classes" in task.about_data
        trainer, _ = train(task)
        answer = task.evaluate(trainer.evaluated)
        assert (answer.data, answer.count) == ("test", 20)
        network, always, bag = answer.scores.values()
        assert 0 <= bag["accuracy"] <= 1
        assert network["accuracy"] > 0.9 > always["accuracy"]
        assert network["nats"] < always["nats"]
        assert answer.confusion is not None
        assert answer.confusion.labels == ["no", "yes"]
        assert answer.confusion.total == 20

    @pytest.mark.parametrize("whiten", [0, 0.5])
    def test_numbers_with_missing_values(self, here: Path, whiten: float) -> None:
        write_series(here / "a.ts")
        write_series(here / "b.ts", 30, seed=1)
        task = make("classify", "data.path=a.ts", "data.test_path=b.ts", f"data.whiten={whiten}")
        assert ("mix" in task.vocabulary["inputs"]) == (whiten > 0)
        assert "36 sequences to train on, 4 to validate, 30 to test; 2 channels, 1 with missing" in task.about_data
        trainer, _ = train(task)
        assert task.evaluate(trainer.evaluated).scores["gru-12"]["accuracy"] > 0.9
        kept = json.loads(json.dumps(task.vocabulary))
        again = make_task(task.settings, vocabulary=kept)
        (here / "a.ts").unlink()  # a model can be used where its data no longer is
        found = again.predict(trainer.evaluated, "b.ts")
        assert found == task.predict(trainer.evaluated, "b.ts")
        labels = [line.rpartition(":")[2] for line in (here / "b.ts").read_text().splitlines()[2:]]
        assert sum(row["label"] == label for row, label in zip(found.rows, labels, strict=True)) > 27
        assert all(0.5 <= row["probability"] <= 1 for row in found.rows)

    def test_scaling_is_by_training_statistics(self, here: Path) -> None:
        write_series(here / "a.ts")
        task = make("classify", "data.path=a.ts")
        flat = np.concatenate(task.parts.train.sequences)
        np.testing.assert_allclose(task.vocabulary["inputs"]["mean"], np.nanmean(flat, 0))
        np.testing.assert_allclose(task.vocabulary["inputs"]["scale"], np.nanstd(flat, 0))

    def test_images(self, here: Path) -> None:
        random = np.random.default_rng(0)
        y = np.arange(40) % 2
        x = random.integers(0, 100, (40, 4, 4), dtype=np.uint8)
        x[:, 0] += (y[:, None] * 150).astype(np.uint8)
        np.savez(here / "a.npz", x=x, y=y)
        for settings, size in (([], 4), (["data.pixels=true", "data.permute=true"], 1)):
            task = make("classify", "data.path=a.npz", *settings)
            assert task.encoder.size == size
            trainer, _ = train(task)
            assert task.evaluate(trainer.evaluated).scores["gru-12"]["accuracy"] == 1
        np.savez(here / "scaled.npz", x=x / np.float32(255), y=y)
        with pytest.raises(
            DataError, match=r"trained on bytes, and this file holds others: bytes \(uint8\) are pixels"
        ):
            task.predict(trainer.evaluated, "scaled.npz")

    def test_without_validation_the_last_model_is_kept(self, here: Path) -> None:
        write_texts(here / "a.csv")
        task = make("classify", "data.path=a.csv", "data.valid=0")
        trainer, validated = train(task)
        assert len(validated) == 1
        assert trainer.best == validated[0]

    def test_the_same_seed_gives_the_same_numbers(self, here: Path) -> None:
        write_texts(here / "a.csv")
        settings = ["data.path=a.csv", "training.steps=6", "training.validate_every=3"]
        one, other, third = (train(make("classify", *settings, f"seed={s}"))[1] for s in (0, 0, 1))
        assert one == other != third

    def test_double_precision(self, here: Path) -> None:
        write_series(here / "a.ts")
        trainer, validated = train(make("classify", "data.path=a.ts", "dtype=float64", "training.steps=3"))
        assert trainer.model.output.weight.dtype == torch.float64
        assert np.isfinite(validated).all()

    @pytest.mark.parametrize(("file", "write"), [("a.ts", write_series), ("a.csv", write_texts)])
    @pytest.mark.parametrize("pool", [1, 3])
    def test_what_explains_a_network_needs_no_data(
        self, here: Path, file: str, write: Callable[[Path], None], pool: int
    ) -> None:
        write(here / file)
        front = ["model.convolution=3", f"model.pool={pool}"]
        task = make("classify", f"data.path={file}", *front, "model.bidirectional=false")
        task = make_task(task.settings, vocabulary=task.vocabulary)
        (here / file).unlink()
        model = task.make_model()
        probe = task.probe(model, 500)
        assert probe.x.shape == (8, 500, 12)
        assert set(task.name_outputs(model, torch.randn(5, 12))) <= {"up", "down", "no", "yes"}


class TestTag:
    def test_tokens(self, here: Path) -> None:
        write_tags(here / "a.conll", 60)
        task = make("tag", "data.path=a.conll", "model.dropout=0", "model.input_dropout=0", "training.steps=150")
        assert task.unit == "step"
        trainer, _ = train(task)
        answer = task.evaluate(trainer.evaluated)
        assert answer.count == sum(len(each) for each in task.parts.test.sequences)
        assert answer.scores["lstm-12"]["accuracy"] > 0.95
        (here / "new.conll").write_text("x\ny\nz\n\nz\nx\n")
        rows = task.predict(trainer.evaluated, "new.conll").rows
        assert [row["tags"] for row in rows] == [["start", "x", "y"], ["start", "z"]]
        assert [len(row["probabilities"]) for row in rows] == [3, 2]

    def test_numbers(self, here: Path) -> None:
        random = np.random.default_rng(0)
        with (here / "a.jsonl").open("w") as out:
            for _ in range(40):
                x = random.normal(size=int(random.integers(1, 8)))
                tags = ["up" if total > 0 else "down" for total in np.cumsum(x)]
                out.write(json.dumps({"values": x.tolist(), "tags": tags}) + "\n")
        task = make("tag", "data.path=a.jsonl", "model.dropout=0", "model.input_dropout=0")
        assert "(steps from 'values', label from 'tags')" in task.about_data
        trainer, _ = train(task)
        assert task.evaluate(trainer.evaluated).scores["lstm-12"]["accuracy"] > 0.8


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "setting", "words"),
        [
            ("classify", "model.head=first", "model.head 'first' does not exist"),
            ("classify", "model.tied=true", "for models that predict what they read"),
            ("classify", "training.truncation=every:8", "learned whole"),
            ("classify", "training.feeding=free", "learned whole"),
            ("tag", "training.over_time=sum", "learned whole"),
            ("classify", "data.valid=1", "leave something to train on"),
            ("classify", "data.tokens=letters", "data.tokens"),
            ("classify", "data.whiten=1", r"data\.whiten must lie in"),
            ("tag", "data.whiten=0.5", r"data\.whiten"),
            ("tag", "model.head=last", "model.head"),
            ("tag", "model.noise=-1", r"model\.noise must not be negative"),
            ("classify", "model.shift=-1", r"model\.shift must not be negative"),
            ("classify", "model.convolution=4", r"model\.convolution must be odd"),
            ("classify", "model.pool=2", r"model\.pool=2 follows a convolution.*: model\.convolution=5"),
            ("classify", "model.pool=0", r"model\.pool must be at least 1"),
        ],
    )
    def test_settings(self, name: str, setting: str, words: str) -> None:
        with pytest.raises(OptionError, match=words):
            override(find_recipe(name).settings, [setting])

    def test_data(self, here: Path) -> None:
        with pytest.raises(OptionError, match=r"data\.path=FILE"):
            make("classify").trainer()
        (here / "a.csv").write_text("text,label\n" + "x,yes\n" * 9)
        with pytest.raises(DataError, match="one class only"):
            make("classify", "data.path=a.csv").trainer()
        (here / "a.csv").write_text("text,label\nx,yes\ny,no\n")
        with pytest.raises(DataError, match="too few"):
            make("classify", "data.path=a.csv").trainer()
        (here / "a.csv").write_text("text,label\n" + "x,yes\ny,no\n" * 9)
        (here / "b.csv").write_text("text,label\nx,perhaps\n")
        with pytest.raises(DataError, match=r"b.csv has labels that training never saw: perhaps"):
            make("classify", "data.path=a.csv", "data.test_path=b.csv").trainer()

    def test_pixels_of_a_text(self, here: Path) -> None:
        write_texts(here / "a.csv")
        with pytest.raises(DataError, match=r"a.csv holds none"):
            make("classify", "data.path=a.csv", "data.pixels=true").trainer()

    def test_evaluation(self, here: Path) -> None:
        write_texts(here / "a.csv")
        run = train_run(make("classify", "data.path=a.csv", "data.valid=0", "data.test=0", "training.steps=1"), None)
        with pytest.raises(OptionError, match=r"evaluate: window is not for classify\. It takes data, baselines"):
            run.evaluate(window=3)
        with pytest.raises(OptionError, match="no test part"):
            run.evaluate()


@pytest.mark.parametrize("name", ["classify", "tag"])
def test_recipes_come_back_from_json(name: str) -> None:
    recipe = find_recipe(name).settings
    assert from_dict(type(recipe), json.loads(json.dumps(to_dict(recipe)))) == recipe
