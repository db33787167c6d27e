"""The recipe `piano-roll` on small made-up music: nats per frame beside each key by itself; neither order nor batches matter."""

import csv
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recurra.cli.main import run
from recurra.data.rolls import LOWEST, Rolls
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.piano_roll import PianoRollTask, _counted
from tests.cli.test_train import outcome, refused

CHORDS = ((60, 64, 67), (65, 69, 72), (67, 71, 74), (60, 63, 67))
SMALL = [
    "model.hidden_size=24",
    "model.dropout=0",
    "model.input_dropout=0",
    "model.weight_dropout=0",
    "training.l2=0",
    "training.average=ema:0.9",
    "training.steps=120",
    "training.batch_size=8",
    "training.learning_rate=0.03",
    "training.warmup=10",
]


def music(pieces: int, seed: int) -> list[list[list[int]]]:
    """Chords in turn, in one of two keys, from a random place on."""
    random = torch.Generator().manual_seed(seed)
    draws = torch.randint(0, 1000, (pieces, 3), generator=random).tolist()
    return [
        [[note + key % 2 for note in CHORDS[(t + start) % 4]] for t in range(8 + longer % 9)]
        for key, start, longer in draws
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parts = {"train": music(40, 0), "valid": music(8, 1), "test": music(8, 2)}
    Path("music.json").write_text(json.dumps(parts))
    return tmp_path


def make_task(*extra: str) -> PianoRollTask:
    made = find_recipe("piano-roll").configure(["data.path=music.json", *SMALL, *extra])
    assert isinstance(made, PianoRollTask)
    return made


def test_from_end_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "piano-roll", "data.path=music.json", *SMALL, "--out", "run"]) == 0
    assert "40 pieces to learn from, 8 to validate, 8 to test" in capsys.readouterr().err
    assert run(["evaluate", "run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["data"], answer["tokens"]) == ("test", sum(len(piece) - 1 for piece in music(8, 2)))
    nats = {name: row["nats"] for name, row in answer["scores"].items()}
    assert nats["lstm-24"] < nats["each key after itself"] < nats["each key by its share"]
    assert nats["lstm-24"] < 5
    assert run(["forecast", "run", "--steps", "6", "--plot", "next.svg"]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert (rows[0][0], rows[0][60 - LOWEST], len(rows)) == ("A0", "C4", 7)
    assert {cell for row in rows[1:] for cell in row} == {"0.0", "1.0"}
    assert (here / "next.svg").exists()


def test_the_same_recipe_gives_the_same_bytes(here: Path) -> None:
    how = ["train", "piano-roll", "data.path=music.json", *SMALL, "training.steps=20", "data.transpose=3"]
    assert run([*how, "--out", "one"]) == run([*how, "--out", "two"]) == 0
    assert outcome(here / "one") == outcome(here / "two")


@pytest.mark.parametrize("head", ["bernoulli", "chain"])
def test_results_depend_neither_on_batches_nor_on_the_order_of_pieces(
    here: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    made = make_task("dtype=float64", f"model.head={head}", "training.steps=10")
    trainer = made.trainer()
    list(trainer.events())
    before = made.evaluate(trainer.evaluated).scores
    monkeypatch.setattr(made, "evaluated_together", 3)
    rolls = made.rolls
    made.rolls = Rolls(rolls.train[::-1], rolls.valid, rolls.test[::-1])
    after = made.evaluate(trainer.evaluated).scores
    for name, row in before.items():
        assert after[name] == pytest.approx(row, rel=1e-9)


def test_a_chain_of_keys_predicts_chords_better_than_keys_alone(here: Path) -> None:
    """What follows is one of two chords: keys by themselves cannot say that they come together."""
    random = torch.Generator().manual_seed(0)
    chords = ([60, 64, 67], [61, 65, 68])
    parts = {
        name: [[chords[k] for k in torch.randint(0, 2, (30,), generator=random).tolist()] for _ in range(count)]
        for name, count in (("train", 20), ("valid", 4), ("test", 4))
    }
    Path("music.json").write_text(json.dumps(parts))
    found = {}
    for head in ("bernoulli", "chain"):
        made = make_task(f"model.head={head}", "training.learning_rate=0.05")
        trainer = made.trainer()
        list(trainer.events())
        found[head] = made.evaluate(trainer.evaluated, baselines=False).scores["lstm-24"]["nats"]
    assert found["bernoulli"] == pytest.approx(6 * 0.693, abs=0.3)
    assert 0.69 < found["chain"] < 1.5


def test_baselines_by_counting() -> None:
    def piece(*down: int) -> Tensor:
        made = torch.zeros(len(down), 88, dtype=torch.float64)
        made[:, 0] = torch.tensor(down)
        return made

    train, judged = [piece(0, 1, 1, 0, 1)], [piece(1, 1, 0)]
    rest = 87 * -math.log(1 - 0.5 / 5)  # keys that were never down, in 4 frames
    # of 4 frames 3 are down: (3 + ½) / (4 + 1)
    share = -(math.log(0.7) + math.log(0.3)) / 2 + rest
    assert _counted(train, judged, memory=False) == pytest.approx(share, abs=1e-6)
    # after a frame with it down, 1 of 2: (1 + ½) / (2 + 1)
    assert _counted(train, judged, memory=True) == pytest.approx(-math.log(0.5) + rest, abs=1e-6)


def test_what_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "piano-roll", *SMALL, "--out", "run"]
    assert "give it a file with data.path=FILE" in refused(train, capsys)
    assert "none.mat cannot be read" in refused([*train, "data.path=none.mat"], capsys)
    assert "a key is down or not" in refused([*train, "data.path=music.json", "model.head=gaussian"], capsys)
    assert "data.transpose must lie between 0 and 87" in refused([*train, "data.transpose=-1"], capsys)
    Path("music.json").write_text('{"train": [[[60], [600]]], "valid": [], "test": []}')
    assert "train, piece 1, frame 2" in refused([*train, "data.path=music.json"], capsys)
    assert not (here / "run").exists()
