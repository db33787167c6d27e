"""`fit`: a module, batches and a loss of one's own. Resuming is exact, and ranks give the steps of one."""

import os
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import recurra as rc
from tests.tasks.fit_on_ranks import Net, train

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(3))
BATCHES = [(x, x.sum(1, keepdim=True)) for x in X.split(4)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def linear() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1)


def square(model: Any, batch: Any) -> Any:
    return (model(batch[0]) - batch[1]).square().mean()


def fit(batches: Any = BATCHES, *, model: Any = None, loss: Any = square, **options: Any) -> rc.Run:
    return rc.fit(model or linear(), batches, loss=loss, **{"steps": 10, "progress": "none"} | options)


def weights(run: rc.Run, model: Any = None) -> dict[str, torch.Tensor]:
    return {
        name: value.clone() for name, value in rc.open(run.path, model=model or linear()).model.state_dict().items()
    }


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], **near: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], **{"rtol": 0, "atol": 0} | near)


def test_it_learns_and_keeps_a_run() -> None:
    run = fit(steps=400, learning_rate=0.05)
    losses = [row["loss"] for row in run.metrics]
    assert len(losses) == 400
    assert losses[-1] < 0.01 * losses[0]
    assert run.path == Path("runs/fit-1")
    assert str(run.outcome) == "400 steps made."


def test_the_best_model_is_kept() -> None:
    """`evaluate` may give a tensor, sees a model in evaluation mode, and leaves it in training."""
    modes = []

    def evaluate(model: Any) -> torch.Tensor:
        modes.append(model.training)
        return -model.weight.square().sum() if len(modes) == 2 else torch.tensor(1.0)

    model = linear()
    run = fit(model=model, evaluate=evaluate, validate_every=2)
    assert len(modes) == 5
    assert not any(modes)
    assert model.training
    assert run.outcome is not None
    assert run.outcome.valid == min(row["valid"] for row in run.metrics if "valid" in row) < 0
    assert (run.path / "checkpoints/best").exists()


@pytest.mark.parametrize("stop", [4, 9, 13])
def test_resuming_is_exact(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped within an epoch and after one, with truncation and a carried state of two kinds."""
    whole = train("whole")
    cut = train("cut", stop)
    assert cut.outcome is not None
    assert cut.outcome.step == stop
    assert_equal(weights(whole, Net()), weights(train("cut"), Net()))
    assert whole.metrics == rc.open("cut", model=Net()).metrics


@pytest.mark.slow
def test_ranks_give_the_steps_of_one(place: Path) -> None:
    """Two ranks with 3 and 2 rows, from start to end, and stopped on two to go on with one."""
    file = Path(__file__).with_name("fit_on_ranks.py")
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(file)]
    for arguments in (["two"], ["cut", "11"]):
        subprocess.run(
            [*command, *arguments],
            check=True,
            timeout=200,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
    one = weights(train("one"), Net())
    assert_equal(one, weights(rc.open("two", model=Net()), Net()), rtol=1e-9, atol=1e-9)
    assert_equal(one, weights(train("cut"), Net()), rtol=1e-9, atol=1e-9)


def test_truncation_ends_gradients_at_the_cuts_and_carries_state() -> None:
    """With a step that only adds, the gradient reaches back to the last cut and the state does not end there."""
    seen: list[tuple[int, float]] = []

    def loss(model: Any, batch: torch.Tensor, state: Any) -> Any:
        state = torch.zeros(2) if state is None else state
        for x in batch.unbind(1):
            state = state + model.weight[0, 0] * x
        seen.append((batch.shape[1], float(state.detach().sum())))
        return state.mean(), state

    run = fit([torch.ones(2, 10)], model=torch.nn.Linear(1, 1, bias=False), loss=loss, steps=1, truncation="every:4")
    assert [length for length, _ in seen] == [4, 4, 2]
    assert seen[2][1] == pytest.approx(seen[0][1] * 10 / 4)
    # chunks weigh as their steps: 4/10 · 4 + 4/10 · 4 + 2/10 · 2
    assert run.metrics[0]["gradient_norm"] == pytest.approx(3.6)


def test_state_is_reset_when_an_epoch_ends() -> None:
    starts: list[bool] = []

    def loss(model: Any, batch: Any, state: Any) -> Any:
        starts.append(state is None)
        return square(model, batch), torch.zeros(4)

    fit(loss=loss, steps=7)
    assert starts == [True, False, False, True, False, False, True]


class TestBatches:
    @pytest.mark.parametrize("stop", [2, 3, 5])
    def test_a_data_loader_resumes_in_its_order(self, stop: int) -> None:
        """The order of an epoch of 3 depends on the seed alone, whatever was drawn before; stopped within one and at its end."""

        def go(out: str, stop: int | None = None) -> rc.Run:
            loader = DataLoader(TensorDataset(X, X.sum(1, keepdim=True)), batch_size=5, shuffle=True)
            seen = 0

            def loss(model: Any, batch: Any) -> Any:
                nonlocal seen
                seen += 1
                if seen == stop:
                    signal.raise_signal(signal.SIGINT)
                return square(model, batch)

            model = linear()
            torch.manual_seed(len(out))
            return fit(loader, model=model, loss=loss, out=out, steps=8)

        whole, cut = go("whole"), go("another name", stop)
        assert cut.outcome is not None
        assert cut.outcome.step == stop
        resumed = go("another name")
        assert resumed.metrics == whole.metrics
        assert_equal(weights(whole), weights(resumed))

    def test_a_function_that_makes_a_generator(self) -> None:
        begun = []

        def make() -> Any:
            begun.append(True)
            yield from BATCHES

        assert_equal(weights(fit(make, out="a")), weights(fit(out="b")))
        assert len(begun) == 4  # 10 steps of epochs of 3

    def test_random_numbers_of_a_generator_are_its_own(self) -> None:
        def make() -> Any:
            for _ in range(3):
                x = torch.randn(4, 3)
                yield x, x.sum(1, keepdim=True)

        def noisy(model: Any, batch: Any) -> Any:
            torch.randn(7)  # as dropout would
            return square(model, batch)

        assert_equal(weights(fit(make, out="a")), weights(fit(make, loss=noisy, out="b")))

    @pytest.mark.parametrize("batches", [iter(BATCHES), (each for each in BATCHES)])
    def test_what_cannot_begin_again_is_refused(self, batches: Any) -> None:
        with pytest.raises(rc.OptionError, match=r"cannot begin again.*batches=make, not make\(\)"):
            fit(batches)
        assert not Path("runs").exists()

    def test_none_and_nothing(self) -> None:
        with pytest.raises(rc.OptionError, match="must be an iterable, or a function that makes one; got None"):
            rc.fit(linear(), None, loss=square)  # type: ignore[arg-type]
        with pytest.raises(rc.DataError, match="gave no batch"):
            fit([])
        once = iter(BATCHES)
        with pytest.raises(rc.DataError, match="gave none when they began again"):
            fit(lambda: once)


class TestState:
    @pytest.mark.parametrize(
        "make",
        [
            lambda h: h,
            lambda h: (h, None),
            lambda h: [h, (h, h)],
            lambda h: {"a": h, "b": {"c": (h,)}},
            lambda h: ((((h,),),), torch.tensor(2.0)),
        ],
    )
    def test_structures_survive_a_stop(self, make: Any) -> None:
        """What goes into a checkpoint comes out of it the same."""
        given: list[Any] = []

        def loss(model: Any, batch: Any, state: Any) -> Any:
            given.append(state)
            return square(model, batch), make(torch.full((4, 2), float(len(given))))

        fit(loss=loss, out="a", steps=2, save_every=1)
        from recurra.runs.folder import RunFolder
        from recurra.training.fit import FitTrainer, GivenBatches
        from recurra.training.loop import Training

        trainer = FitTrainer(linear(), GivenBatches(BATCHES), Training(steps=2, truncation="none"), None, loss)
        trainer.restore(RunFolder.open(Path("a")).load("last"))
        wanted = make(torch.full((4, 2), 2.0))
        assert repr(trainer.carried) == repr(wanted)

    @pytest.mark.parametrize("state", [3, "a", {1: torch.ones(2)}, namedtuple("Pair", "a b")(torch.ones(2), None)])
    def test_what_no_checkpoint_can_hold_is_refused_at_once(self, state: Any) -> None:
        with pytest.raises(rc.OptionError, match="a state to carry is tensors"):
            fit(loss=lambda model, batch, s: (square(model, batch), state))

    def test_an_argument_with_a_default_is_no_state(self) -> None:
        run = fit(loss=lambda model, batch, weight=2.0: weight * square(model, batch))
        assert run.metrics[0]["loss"] == pytest.approx(2 * fit().metrics[0]["loss"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stepz": 3}, "Did you mean 'training.steps'"),
        ({"steps": "many"}, "expected a whole number"),
        ({"loss": 3}, r"loss must be a function loss\(model, batch\); got 3"),
        ({"loss": lambda model, batch: None}, "scalar tensor with a gradient; got NoneType"),
        ({"loss": lambda model, batch: model(batch[0])}, r"got a tensor \[4, 1\]"),
        ({"loss": lambda model, batch: torch.tensor(1.0)}, r"got a tensor \[\] without one"),
        ({"loss": lambda model, batch: (square(model, batch), 3)}, "got tuple"),
        ({"model": torch.nn.ReLU()}, "ReLU has no parameter to train"),
        ({"model": 3}, "must be a torch.nn.Module; got int"),
        ({"truncation": "every:3"}, "give a loss"),
        ({"truncation": "window:3"}, "needs a model that is read step by step"),
        ({"progress": "bar"}, "Known: auto, lines, none"),
        ({"minutes": "2"}, "minutes must be a number of at least 0; got '2'"),
    ],
)
def test_refusals_are_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(rc.RecurraError, match=words) as error:
        fit(**options)
    assert "\n" not in str(error.value)


def test_a_folder_of_other_settings_is_refused() -> None:
    fit(out="a")
    with pytest.raises(rc.RunError, match=r"training.steps=10, and training.steps=20 was asked"):
        fit(out="a", steps=20)


def test_a_run_that_is_over_stays_as_it_is() -> None:
    first = weights(fit(out="a"))
    again = fit(out="a")
    assert_equal(first, weights(again))
    assert len(again.metrics) == 10


def test_open_needs_the_module() -> None:
    run = fit(out="a")
    opened = rc.open("a")
    assert str(opened) == "a: fit, Linear; it can evaluate"
    with pytest.raises(rc.RunError, match=r"rc.open\(path, model=MODULE\)"):
        opened.model  # noqa: B018
    with pytest.raises(rc.RunError, match="another model"):
        rc.open("a", model=torch.nn.Linear(4, 1)).model  # noqa: B018
    with pytest.raises(rc.OptionError, match=r"it goes on with rc.fit\(..., out='a'\)"):
        rc.open("a", model=linear()).resume()
    with pytest.raises(rc.OptionError, match="no evaluate function"):
        run.evaluate()
    with pytest.raises(rc.OptionError, match="It can: evaluate"):
        run.sample()
