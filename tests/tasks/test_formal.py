"""The formal languages as recipes: solved in seconds from short strings, held to long ones; and what is refused."""

import json
from pathlib import Path

import pytest
import torch

from recurra.cli.main import run
from recurra.models.language import LanguageModel
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.formal import FormalTask
from tests.cli.test_train import refused

SMALL = ["model.hidden_size=8", "training.steps=4", "training.warmup=1", "data.strings=100", "engine=eager"]


def trained(name: str, *extra: str) -> tuple[FormalTask, LanguageModel]:
    task = find_recipe(name).configure(list(extra))
    assert isinstance(task, FormalTask)
    trainer = task.trainer()
    for _ in trainer.events():
        pass
    return task, trainer.evaluated.eval()


def test_short_strings_are_enough_for_long_ones() -> None:
    task, model = trained("tomita", "data.language=4", "training.steps=500")
    network, baseline = task.evaluate(model).scores.values()
    assert (network["prefixes"], network["strings"], network["all prefixes"]) == (1, 1, 1)
    assert baseline["strings"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("language", range(1, 8))
def test_every_prefix_of_ten_thousand_long_strings_is_right(language: int) -> None:
    task, model = trained("tomita", f"data.language={language}", "data.test_strings=10_000")
    (network,) = task.evaluate(model, baselines=False).scores.values()
    assert network["all prefixes"] == 1


@pytest.mark.slow
def test_brackets_of_two_kinds_are_closed_in_order() -> None:
    task, model = trained("dyck")
    (network,) = task.evaluate(model, baselines=False).scores.values()
    assert network["strings"] >= 0.999


def test_prefixes_are_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "tomita", *SMALL, "--out", "run"]) == 0
    said = capsys.readouterr().err
    assert " prefixes/s " in said
    assert "truncation none" in said
    assert run(["evaluate", "run", "--no-baselines"]) == 0
    assert ": 101,000 prefixes " in capsys.readouterr().out


def test_batches_are_of_prefixes_with_their_classes() -> None:
    task, _ = trained("tomita", *SMALL, "data.language=5")
    batches = task.make_batches(0, 100, training=True)
    batch = batches.next()
    assert batch.lengths is not None
    for row, classes, length in zip(batch.inputs, batch.targets, batch.lengths.tolist(), strict=True):
        assert torch.equal(classes[:length], task.language.labels(row[None, :length])[0])
    other = task.make_batches(1, 100, training=True)
    assert not torch.equal(batches.values[:1000], other.values[:1000])


def test_a_run_is_evaluated_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "dyck", *SMALL, "--out", "run"]) == 0
    capsys.readouterr()
    assert run(["evaluate", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "strings of length 100"
    assert found["tokens"] == 101_000
    assert set(found["scores"]) == {"gru-8", "always open"}
    assert run(["explain", "run", "--fixed-points", "--input", "(", "--starts", "8"]) == 0
    assert "does not exist" in refused(["explain", "run", "--fixed-points", "--input", "x"], capsys)
    assert "synthetic" in refused(["evaluate", "run", "--data", "x.txt"], capsys)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("data.language=8", "1 to 7"),
        ("data.family=latin", "data.family"),
        ("data.length=0", "data.length"),
        ("training.feeding=free", "each step is taught"),
    ],
)
def test_what_does_not_exist_is_refused(setting: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(["train", "tomita", setting], capsys)
