"""Training whose numbers go wrong ends with a sentence, and what was good before is kept."""

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import recurra as rc
from recurra.cli.main import run as recurra
from recurra.errors import DataError, OptionError, RunError
from recurra.runs.checkpoint import Checkpoint
from recurra.tasks.following import belonging
from recurra.training.clipping import clip_gradients
from recurra.training.soundness import PATIENCE, RATIO, LossWatch, check_weights, enough_memory

TEXT: dict[str, Any] = {"data": ["abcab bca " * 100], "cell": "elman", "hidden_size": 8, "batch_size": 4}
QUICK: dict[str, Any] = {"engine": "eager", "progress": "none", "truncation": "every:8"}


class TestLossWatch:
    def test_only_a_loss_that_stays_high_has_exploded(self) -> None:
        watch = LossWatch()
        assert not watch.see(1.5)
        high = 2.5 * RATIO + 1
        assert not any(watch.see(high) for _ in range(PATIENCE - 1))
        assert not watch.see(2.0)
        assert not any(watch.see(high) for _ in range(PATIENCE - 1))
        assert watch.see(high) == f"the loss exploded: {high:g}, where it began with 1.5."

    def test_it_goes_on_where_it_stopped(self) -> None:
        watch, again = LossWatch(), LossWatch()
        watch.see(1.0)
        for _ in range(PATIENCE - 1):
            watch.see(1e9)
        again.restore(watch.state())
        assert again.see(1e9)
        again.restore({})
        assert not again.see(1e9)

    def test_losses_that_are_not_finite_are_counted_elsewhere(self) -> None:
        watch = LossWatch()
        assert not any(watch.see(math.nan) or watch.see(math.inf) for _ in range(50))
        assert watch.first is None


@pytest.mark.parametrize("rate", [1e3, 1e300])
def test_a_learning_rate_that_is_far_too_high(tmp_path: Path, rate: float) -> None:
    run = rc.train("text", **TEXT, **QUICK, learning_rate=rate, steps=200, warmup=0, out=tmp_path / "run")
    assert run.outcome is not None
    assert run.outcome.failed
    assert "training.learning_rate" in run.outcome.why
    assert "There is no checkpoint yet" in run.outcome.why
    assert not run.is_trained


def test_an_explosion_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    """The learning rate rises to 1e3: the first checkpoints are of good weights."""
    how = {
        "learning_rate": 1e3,
        "warmup": 1000,
        "schedule": "constant",
        "optimiser": "sgd",
        "save_every": 5,
        "validate_every": 5,
    }
    run = rc.train("text", **TEXT, **QUICK, **how, steps=200, out=tmp_path / "run")
    assert run.outcome is not None
    assert run.outcome.failed
    assert "The last good checkpoint is kept" in run.outcome.why
    assert all(value.isfinite().all() for value in run.model.state_dict().values())
    scored = run.evaluate(baselines=False).to_json()
    assert scored


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> rc.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return rc.train("text", **TEXT, **QUICK, steps=6, save_every=3, validate_every=3, out=folder)


def test_nan_in_the_weights_of_a_checkpoint(trained: rc.Run) -> None:
    checkpoint = trained.folder.load("last")
    name = next(name for name, value in checkpoint.weights.items() if value.is_floating_point())
    checkpoint.weights[name].view(-1)[0] = math.nan
    with pytest.raises(RunError, match=rf"holds NaN or ±inf in {name}.*checkpoints/best"):
        trained.task.trainer().restore(checkpoint)
    with pytest.raises(RunError, match="NaN or ±inf"):
        trained.task.trained(Checkpoint(checkpoint.step, checkpoint.weights), "run")
    moments = trained.folder.load("last")
    next(value for name, value in moments.tensors.items() if name.startswith("optimiser.")).fill_(math.inf)
    with pytest.raises(RunError, match=r"±inf in optimiser\."):
        trained.task.trainer().restore(moments)


def test_whole_numbers_need_no_check() -> None:
    check_weights({"a": torch.tensor([1, 2]), "b": torch.tensor([1.0])}, "it")


def test_nan_in_a_file_that_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = rc.train("text", **TEXT, **QUICK, steps=6, save_every=3, out=tmp_path / "run")
    file = run.path / "checkpoints" / "last" / "weights.safetensors"
    weights = load_file(file)
    next(value for value in weights.values() if value.is_floating_point()).fill_(math.nan)
    save_file(weights, file)
    assert recurra(["train", "--resume", str(run.path)]) in (0, 2)  # the file is no longer the one that was saved
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "last" in said


class TestReservoirs:
    how: ClassVar[dict[str, Any]] = {"hidden_size": 20, "washout": 5, "progress": "none"}

    def test_large_values_are_refused_where_they_are_read(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"row \d+, .*too large"):
            rc.train("reservoir", data=np.sin(np.arange(600.0)) * 1e200, out=tmp_path / "run", **self.how)
        assert not (tmp_path / "run").exists()

    def test_a_solution_that_is_not_finite_is_no_success(self, tmp_path: Path) -> None:
        series = np.sin(np.arange(600.0))
        run = rc.train("reservoir", data=series, out=tmp_path / "run", radius=1e100, input_scale=1e100, **self.how)
        assert run.outcome is not None
        if run.outcome.failed:
            assert "not finite" in run.outcome.why
            assert not run.is_trained
        else:
            assert all(value.isfinite().all() for value in run.model.state_dict().values())

    def test_what_is_solved_for_is_looked_at(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        from recurra.models.ridge import Ridge

        monkeypatch.setattr(Ridge, "solve", lambda self, penalty: torch.full((self.inputs, 1), math.inf).double())
        run = rc.train("reservoir", data=np.sin(np.arange(600.0)), out=tmp_path / "run", **self.how)
        assert run.outcome is not None
        assert run.outcome.failed
        assert "is not finite, and is not kept" in run.outcome.why
        assert not run.is_trained


class TestChannelsThatNeverChange:
    def test_of_a_series(self, tmp_path: Path) -> None:
        data = np.stack([np.sin(np.arange(900.0)), np.full(900, 7.0)], axis=1)
        for recipe, how in (("forecast", {}), ("reservoir", {"washout": 5})):
            with pytest.raises(DataError, match="column 2"):
                rc.train(recipe, data=data, out=tmp_path / recipe, progress="none", **how)

    def test_that_change_too_little_to_be_scaled(self, tmp_path: Path) -> None:
        data = np.where(np.arange(300) % 2, 1e-320, 2e-320)
        with pytest.raises(DataError, match="too little or too much"):
            rc.train("forecast", data=data, out=tmp_path / "run", progress="none")

    def test_of_labelled_sequences_are_told_of(self) -> None:
        x = torch.randn(40, 6, 3)
        x[..., 1] = 5
        task = rc.RECIPES["classify"](data=(x, ["a", "b"] * 20))
        assert "1 that never changes" in task.about_data


def test_what_does_not_fit_into_memory_is_a_sentence() -> None:
    with pytest.raises(OptionError, match="does not fit into memory"), enough_memory():
        torch.empty(2**60)
    with pytest.raises(RuntimeError, match="shapes"), enough_memory():
        torch.zeros(2, 3) @ torch.zeros(2, 3)


def test_too_little_memory_is_no_sign_of_another_run() -> None:
    with pytest.raises(OptionError, match="does not fit into memory"), belonging("runs/a: the checkpoint"):
        torch.empty(2**60)
    with pytest.raises(RunError, match="changed by hand"), belonging("runs/a: the checkpoint"):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


def test_a_model_that_does_not_fit_into_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "tomita", "model.hidden_size=9000000", "--out", str(tmp_path / "run")]
    assert recurra(command) == 2
    assert "does not fit into memory" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_bounds_beyond_the_type_of_gradients_change_nothing() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.full((3,), 5.0)
    clip_gradients([parameter], None, 1e300)
    assert parameter.grad.tolist() == [5.0] * 3


def test_more_layers_than_anyone_stacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"model\.layers must be at most 100"):
        rc.train("tomita", layers=1000, out=tmp_path / "run")
