"""`data.embeddings`: every task that embeds words starts from the vectors of a file, and never needs the file again."""

import random
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

import recurra as rc
from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.tasks.catalogue import find_recipe
from tests.cli.test_train import outcome, refused

WORDS = [f"word{k}" for k in range(12)]
KNOWN = {word: [random.Random(word).gauss(0, 3) for _ in range(5)] for word in WORDS[:8]}
SMALL = {"model.hidden_size": 6, "training.steps": 2, "training.batch_size": 4}
CASES: dict[str, dict[str, Any]] = {
    "text": {"data.path": "lines.txt", "data.tokens": "word", "training.truncation": "every:4"},
    "names": {"data.path": "lines.txt", "data.tokens": "word"},
    "lengths": {"data.path": "lines.txt", "data.tokens": "word"},
    "conditioned": {"data.path": "classes.tsv", "data.tokens": "word"},
    "fixed-window": {"data.path": "lines.txt", "data.tokens": "word"},
    "classify": {"data.path": "labels.csv", "data.tokens": "word"},
    "tag": {"data.path": "tags.txt", "data.min_count": 1},
    "translate": {"data.path": "pairs.tsv", "data.tokens": "word"},
    "tree": {"data.path": "trees.txt"},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    lines = [[draw.choice(WORDS) for _ in range(5)] for _ in range(200)]
    files = {
        "vectors.txt": [f"{word} {' '.join(map(str, vector))}" for word, vector in KNOWN.items()],
        "lines.txt": [" ".join(line) for line in lines],
        "classes.tsv": [f"{line[0]}\t{' '.join(line)}" for line in lines],
        "pairs.tsv": [f"{' '.join(line)}\t{line[0]}" for line in lines],
        "labels.csv": ["text,label", *(f"{' '.join(line)},{draw.choice('ab')}" for line in lines)],
        "tags.txt": ["\n".join(f"{word}\t{draw.choice('NV')}" for word in line) + "\n" for line in lines],
        "trees.txt": [f"(1 (0 {line[0]}) (1 {line[1]}))" for line in lines],
    }
    for name, made in files.items():
        (tmp_path / name).write_text("\n".join(made) + "\n")
    return tmp_path


def make_task(recipe: str, **more: Any) -> Any:
    return find_recipe(recipe).configure({**SMALL, **CASES[recipe], "data.embeddings": "vectors.txt", **more})


@pytest.mark.parametrize("recipe", CASES)
def test_words_start_from_the_file(here: Path, recipe: str) -> None:
    task = make_task(recipe)
    model = task.trainer().model
    given = torch.tensor([KNOWN[word] for word in WORDS[:8]])
    for name, words in task.word_tables().items():
        table = attrgetter(name)(model).weight.detach()
        ratio = table[[words.index(word) for word in WORDS[:8]]] / given
        torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio))
        drawn = table[[words.index(word) for word in WORDS[8:]]]
        lengths = [each.square().sum(1).mean().sqrt() for each in (ratio * given, drawn)]
        assert 0.5 < float(lengths[0] / lengths[1]) < 2
    assert task.settings.model.embedding_size == 5
    assert len(task.word_tables()) == 1


def test_a_run_goes_on_and_is_used_without_the_file(
    here: Path, cut_off: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["train", "tree", "data.path=trees.txt", "data.embeddings=vectors.txt", "data.freeze_embeddings=true"]
    asked += ["model.hidden_size=6", "training.steps=6", "training.save_every=2", "training.validate_every=3"]
    assert run([*asked, "--out", "one"]) == 0
    assert "model.embedding_size=5 (the file has vectors of 8 of 12 words)" in capsys.readouterr().err
    with cut_off():
        assert run([*asked, "--out", "two"]) == 0
    (here / "vectors.txt").unlink()
    assert run(["train", "--resume", "two"]) == 0
    assert outcome(here / "one") == outcome(here / "two")
    assert rc.open("two").settings.model.embedding_size == 5
    assert rc.open("two").evaluate().scores


def test_frozen(here: Path) -> None:
    task = make_task("classify", **{"data.freeze_embeddings": True, "training.l2": 0.1, "training.l1": 0.1})
    trainer = task.trainer()
    before = trainer.model.embedding.weight.clone()
    list(trainer.events())
    assert torch.equal(trainer.model.embedding.weight, before)
    free = make_task("classify").trainer()
    list(free.events())
    assert not torch.equal(free.model.embedding.weight, before)


@pytest.mark.parametrize(
    ("recipe", "settings", "said"),
    [
        ("text", ["data.path=lines.txt"], "none are read. Set data.tokens=word, or leave it out."),
        ("tree", ["data.path=trees.txt", "model.embedding_size=7"], "has vectors of 5 numbers. Leave it out."),
        ("tree", ["data.path=trees.txt", "data.embeddings=gone.txt"], "gone.txt cannot be read"),
        ("tree", ["data.path=trees.txt", "data.embeddings=other.txt"], "a vector of none of the 12 words"),
    ],
)
def test_refused(here: Path, recipe: str, settings: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "other.txt").write_text("film 1 2\n")
    assert said in refused(["train", recipe, "data.embeddings=vectors.txt", *settings, "--out", "run"], capsys)
    assert not (here / "run").exists()


def test_to_freeze_takes_a_file(here: Path) -> None:
    with pytest.raises(OptionError, match=r"it is of data.embeddings, which is not given"):
        find_recipe("tree").configure({"data.path": "trees.txt", "data.freeze_embeddings": True})
