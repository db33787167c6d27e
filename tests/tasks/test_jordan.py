"""The output-recurrence recipe: it trains, is evaluated both ways, and holds what its output holds."""

import json
import time
from pathlib import Path

import pytest

from recurra.cli.main import run
from recurra.tasks.catalogue import find_recipe
from tests.cli.test_train import refused

QUICK = [
    "training.steps=150",
    "training.validate_every=150",
    "training.warmup=10",
    "data.length=24",
    "model.hidden_size=16",
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scores(capsys: pytest.CaptureFixture[str], *settings: str) -> dict[str, dict[str, float]]:
    assert run(["train", "output-recurrence", *QUICK, *settings, "--out", "run"]) == 0
    capsys.readouterr()
    assert run(["evaluate", "run", "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out)["scores"])


def test_parity_is_in_the_output_and_can_be_held(capsys: pytest.CaptureFixture[str]) -> None:
    found = scores(capsys, "data.task=parity", "training.learning_rate=0.03")
    assert found["teacher forcing"]["accuracy"] == 1
    assert found["free running"]["accuracy"] == 1


def test_rounds_of_the_machine_are_not_and_are_lost(capsys: pytest.CaptureFixture[str]) -> None:
    found = scores(capsys, "training.feeding=scheduled:0.5")
    forced, free = found["teacher forcing"], found["free running"]
    assert 0.9 < forced["accuracy"] < 1
    assert free["accuracy"] < forced["accuracy"] - 0.1
    assert free["nats"] > forced["nats"] + 0.1


def test_what_it_cannot_do_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for setting, said in (("data.task=adding", "washing-machine"), ("training.feeding=free", "scheduled:0.5")):
        assert said in refused(["train", "output-recurrence", setting], capsys)


@pytest.mark.slow
def test_an_epoch_takes_as_long_with_sequences_eight_times_as_long() -> None:
    def seconds(T: int) -> float:
        settings = ["data.task=parity", f"data.length={T}", f"training.batch_size={16384 // T}"]
        trainer = find_recipe("output-recurrence").configure(settings).trainer()
        taken = []
        for _ in range(30):
            began = time.perf_counter()
            trainer.update(trainer.batches.next())
            taken.append(time.perf_counter() - began)
        return sorted(taken)[15]

    assert seconds(256) < 1.5 * seconds(32)
