"""The long-memory recipes: a few steps, the baselines beside them, and a run that can be judged but not sampled."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from recurra import Recurrent
from recurra.cli.main import run
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.models.readout import Readout
from recurra.tasks.catalogue import find_recipe
from recurra.tasks.memory import TEST, VALID, MemoryTask
from recurra.training.events import Step, Validated
from tests.cli.test_train import refused

SMALL = [
    "data.length=6",
    "model.cell=gru",
    "model.hidden_size=8",
    "training.batch_size=8",
    "training.steps=6",
    "training.warmup=1",
    "training.validate_every=3",
    "engine=eager",
]
RECIPES = ["long-memory", "long-memory-copying"]


def make_task(name: str, *extra: str) -> MemoryTask:
    made = find_recipe(name).configure([*SMALL, *extra])
    assert isinstance(made, MemoryTask)
    return made


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_few_steps_train(name: str, dtype: str) -> None:
    trainer = make_task(name, f"dtype={dtype}", "training.steps=40", "training.learning_rate=0.02").trainer()
    events = list(trainer.events())
    steps = [event for event in events if isinstance(event, Step)]
    valid = [event.valid for event in events if isinstance(event, Validated)]
    assert len(steps) == 40
    assert not any(step.skipped for step in steps)
    assert valid[-1] < 0.7 * valid[0]
    assert steps[0].tokens == (8 if name == "long-memory" else 8 * 26)
    assert trainer.model.output.weight.dtype == getattr(torch, dtype)


class TestAdding:
    def test_only_the_last_step_is_learned_and_scored(self) -> None:
        made = make_task("long-memory")
        inputs, targets, scored = made.make_batch(5, 0)
        assert scored is not None
        assert scored.sum(1).tolist() == [1] * 5
        assert scored[:, -1].tolist() == [1] * 5
        marked = (inputs[..., 0] * inputs[..., 1]).sum(1)
        torch.testing.assert_close(targets[:, -1, 0], marked)

    def test_always_1_scores_a_sixth(self) -> None:
        made = make_task("long-memory")
        model = made.make_model()
        assert isinstance(model, Readout)
        with torch.no_grad():
            model.output.weight.zero_()
            model.output.bias.fill_(1)
        answer = made.evaluate(model)
        assert answer.scores["always 1"] == {"mean squared error": 1 / 6}
        assert answer.count == 500
        # (s − 1)² has the mean 1/6 and the variance 1/15 − 1/36
        assert answer.scores["gru-8"]["mean squared error"] == pytest.approx(1 / 6, abs=4 * math.sqrt((7 / 180) / 500))

    @pytest.mark.parametrize("policy", ["free", "scheduled:0.5"])
    def test_numbers_cannot_be_drawn(self, policy: str) -> None:
        with pytest.raises(OptionError, match="reads numbers"):
            make_task("long-memory", f"training.feeding={policy}")


class TestCopying:
    def test_without_memory_the_score_is_the_baseline(self) -> None:
        """Blank until the sign, then any of the eight: what a model says that has counted and forgotten."""
        made = make_task("long-memory-copying")
        answer = made.evaluate(Forgetful())
        expected = 10 * math.log(8) / 26
        assert answer.scores["without memory"] == {"nats": pytest.approx(expected), "recalled": 1 / 8}
        assert answer.scores["gru-8"]["nats"] == pytest.approx(expected, abs=1e-4)
        assert answer.scores["gru-8"]["recalled"] == pytest.approx(1 / 8, abs=4 * math.sqrt(7 / 64 / 5000))
        assert answer.count == 500 * 26

    def test_dropout_of_inputs_is_read(self) -> None:
        given = make_task("long-memory-copying", "model.dropout=0.1", "model.input_dropout=0.3").make_model()
        left_out = make_task("long-memory-copying", "model.dropout=0.1").make_model()
        assert isinstance(given, LanguageModel)
        assert (given.input_dropout.p, left_out.input_dropout.p) == (0.3, 0.1)

    @pytest.mark.parametrize("policy", ["free", "scheduled:0.5"])
    def test_tokens_can_be_drawn(self, policy: str) -> None:
        trainer = make_task("long-memory-copying", f"training.feeding={policy}").trainer()
        assert all(not event.skipped for event in trainer.events() if isinstance(event, Step))


class Forgetful(LanguageModel):
    """Predicts blank for 16 steps, and then each of eight tokens with the same probability."""

    def __init__(self) -> None:
        super().__init__(10, Recurrent("gru", 2, 2, engine="eager"))

    def forward(self, inputs, state=None, lengths=None):  # type: ignore[no-untyped-def, override]
        logits = torch.full((*inputs.shape, 10), -50.0)
        logits[:, :16, 8] = 50
        logits[:, 16:, :8] = 50
        return logits, state


@pytest.mark.parametrize("name", RECIPES)
class TestBoth:
    def test_held_out_sequences_are_not_those_of_training(self, name: str) -> None:
        made = make_task(name)
        passes = [
            {
                tuple(row.flatten().tolist())
                for batch in made.make_batches(seed, training=False).one_pass()
                for row in batch.inputs
            }
            for seed in (0, TEST, VALID)
        ]
        assert not passes[0] & passes[1]
        assert not passes[0] & passes[2]
        assert not passes[1] & passes[2]

    def test_baselines_can_be_left_out(self, name: str) -> None:
        made = make_task(name)
        assert list(made.evaluate(made.make_model(), baselines=False).scores) == ["gru-8"]

    def test_a_run_can_be_evaluated_and_not_sampled(
        self, name: str, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["train", name, *SMALL, "--out", "run"]) == 0
        _, err = capsys.readouterr()
        assert "recurra evaluate run" in err
        assert "recurra sample" not in err
        assert not (here / "run/vocabulary.json").exists()

        assert run(["evaluate", "run", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["data"] == "test"
        network, baseline = found["scores"].values()
        assert network.keys() == baseline.keys()
        assert all(math.isfinite(value) for value in network.values())
        expected = 1 / 6 if name == "long-memory" else 10 * math.log(8) / 26
        assert next(iter(baseline.values())) == pytest.approx(expected)

        assert run(["evaluate", "run"]) == 0
        assert f"{found['tokens']:,} steps" in capsys.readouterr().out
        assert name in refused(["sample", "run"], capsys)
        for option, value in (("data", "text.txt"), ("window", "3"), ("dynamic", "0.1")):
            assert f"{option} is not for {name}" in refused(["evaluate", "run", f"--{option}", value], capsys)

    def test_a_resumed_run_is_the_same_run(self, name: str, here: Path, cut_off: Any) -> None:
        command = ["train", name, *SMALL, "training.save_every=2"]
        assert run([*command, "--out", "whole"]) == 0
        with cut_off():
            assert run([*command, "--out", "cut"]) == 0
        before = (here / "cut/metrics.jsonl").read_bytes()
        assert run(["train", "--resume", "cut"]) == 0
        whole = (here / "whole/metrics.jsonl").read_bytes()
        assert len(before) < len(whole)
        assert (here / "cut/metrics.jsonl").read_bytes() == whole

    def test_a_length_without_room_is_refused(self, name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "data.length" in refused(["train", name, "data.length=1"], capsys)
        assert "data.task" in refused(["train", name, "data.task=sorting"], capsys)
        assert list(here.iterdir()) == []


def test_the_machine_s_states_are_named_by_its_triggers() -> None:
    made = find_recipe("washing-machine").configure(["model.hidden_size=8", "engine=eager"])
    model = made.make_model()
    triggers = made.triggers(model)
    assert triggers is not None
    assert triggers.names[0] == "none"
    assert triggers.x.shape == (len(triggers.names), 16)
    off, idle = [0] * 11, [1] * 11
    off[triggers.names.index("Power")], idle[triggers.names.index("Power")] = 1, 0
    for name in triggers.names[2:8]:
        idle[triggers.names.index(name)] = -1
    assert made.name_states(model, torch.zeros(2, 8), [off, idle]) == ["Off", "Idle"]
    both = made.name_states(model, torch.zeros(1, 8), [[0] * 11])  # one state for everything: what the network predicts
    assert both == made.name_outputs(model, torch.zeros(1, 8))
    assert make_task("long-memory").triggers(model) is None


def test_a_batch_that_would_take_minutes_to_draw_is_refused() -> None:
    task = find_recipe("washing-machine").configure(
        ["training.batch_size=1000000", "model.hidden_size=3", "engine=eager"]
    )
    with pytest.raises(OptionError, match=r"a batch of 1,000,000 sequences .* RECURRA_LIMITS=cells="):
        task.trainer()


def test_the_engine_that_is_named_is_that_of_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few rows a long sequence is scanned where several cores are there."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for length, name in ((128, "fused"), (65_536, "scan")):
        task = make_task(
            "long-memory", f"data.length={length}", "training.batch_size=1", "engine=auto", "model.cell=carousel"
        )
        assert task.about_model(task.make_model()).endswith(f"engine {name}")
