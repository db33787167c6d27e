"""The loop: the same numbers after a resume, steps that are not numbers, clipping, schedules, and the ways to stop."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recurra.data.batches import Batches, Chunks, Sequences
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.runs.checkpoint import Checkpoint, read_checkpoint
from recurra.tasks.settings import check
from recurra.training.clipping import clip_gradients
from recurra.training.evaluation import evaluate
from recurra.training.events import Event, Finished, Save, Step, Validated
from recurra.training.loop import PATIENCE_WITH_NAN, Trainer, Training
from recurra.training.objectives import step_weights, weighted_nll
from recurra.training.schedules import Plateau, learning_rate
from tests.helpers import make_language_model

V, H = 7, 8
IDS = torch.randint(V, (200,), generator=torch.Generator().manual_seed(1))
QUICK = Training(steps=8, batch_size=3, truncation="every:6", warmup=2, validate_every=4, save_every=4)


def lanes(length: int = 6) -> Batches:
    return Chunks(IDS, 3, length, seed=3)


def sequences() -> Batches:
    return Sequences([IDS[k * 9 : k * 9 + 4 + k % 5] for k in range(14)], 4, seed=3)


def make_trainer(
    settings: Training = QUICK,
    batches: Callable[[], Batches] = lanes,
    judge: Callable[[LanguageModel], float] | None = None,
    **model: Any,
) -> Trainer:
    torch.manual_seed(5)
    made = make_language_model(V, **{"cell": "lstm", "hidden_size": H, "engine": "eager"} | model)
    valid = Chunks(IDS[:50], 2, 8, shuffle=False)
    return Trainer(made, batches(), settings, judge or (lambda model: evaluate(model, valid).nats))


def events(trainer: Trainer, until: int | None = None) -> list[Event]:
    """What the loop tells, without the last rows: those of the step `until` are the last."""
    found = []
    for event in trainer.events():
        if until is not None and event.step > until:
            break
        found.append(event)
    return found


def told(found: list[Event]) -> list[Any]:
    return [event for event in found if not isinstance(event, Save)]


def assert_same_checkpoint(one: Checkpoint, other: Checkpoint) -> None:
    assert one.step == other.step
    assert one.facts == other.facts
    for a, b in ((one.weights, other.weights), (one.tensors, other.tensors)):
        assert a.keys() == b.keys()
        for name in a:
            assert torch.equal(a[name], b[name]), name


RESUMED = {
    "adamw, dropout": (QUICK, lanes, {"dropout": 0.3, "layers": 2}),
    "averaged": (replace(QUICK, average="ema:0.99"), lanes, {"dropout": 0.2}),
    "sgd, plateau": (
        replace(QUICK, optimiser="sgd", schedule="plateau", learning_rate=20.0, validate_every=1),
        lanes,
        {},
    ),
    "lanes start anew": (replace(QUICK, reset=0.5), lanes, {"cell": "skip(d=3)"}),
    "window": (replace(QUICK, truncation="window:4", length=6), lanes, {"dropout": 0.2, "layers": 2}),
    "sequences": (replace(QUICK, truncation="none"), sequences, {"dropout": 0.2, "learn_initial": True}),
    "tied, l1, l2": (replace(QUICK, l1=1e-3, l2=0.1, optimiser="adam"), lanes, {"tied": True, "cell": "gru"}),
}


@pytest.mark.parametrize("stop", [4, 8])
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_gives_the_same_numbers(name: str, stop: int, tmp_path: Path) -> None:
    settings, batches, model = RESUMED[name]
    settings = replace(settings, steps=12)
    whole = make_trainer(settings, batches, **model)
    expected = events(whole)

    first = make_trainer(settings, batches, **model)
    kept = None
    before: list[Event] = []
    for event in first.events():
        before.append(event)
        if isinstance(event, Save) and event.step == stop:
            for file, data in event.make().to_files().items():
                (tmp_path / file).write_bytes(data)
            kept = read_checkpoint(tmp_path)
            break
    assert kept is not None
    torch.rand(5)  # whatever else draws random numbers in between

    second = make_trainer(settings, batches, **model)
    second.restore(kept)
    after = events(second)
    assert told(before) + told(after) == told(expected)
    assert_same_checkpoint(second.checkpoint(), whole.checkpoint())


def test_state_goes_on_from_chunk_to_chunk_and_is_dropped_at_a_new_epoch() -> None:
    trainer = make_trainer(replace(QUICK, learning_rate=0.0, optimiser="sgd", reset=0.0))
    batches = trainer.batches
    first, second = batches._batch(0, 0), batches._batch(0, 1)
    trainer.update(first)
    carried = trainer.update(second).loss
    alone = trainer.update(replace(second, fresh=True)).loss
    both = replace(
        first, inputs=torch.cat([first.inputs, second.inputs], 1), targets=torch.cat([first.targets, second.targets], 1)
    )
    trainer.model.eval()
    logits, _ = trainer.model(both.inputs)
    weights = torch.ones(second.targets.shape) / second.tokens
    assert carried == pytest.approx(float(weighted_nll(logits[:, 6:].detach(), second.targets, weights)), abs=1e-6)
    assert abs(alone - carried) > 1e-4


class TestReset:
    def losses(self, reset: float, **model: Any) -> tuple[list[float], list[float]]:
        """The losses of the second batch as it was trained on, and from nothing."""
        trainer = make_trainer(replace(QUICK, learning_rate=0.0, optimiser="sgd", reset=reset), **model)
        first, second = trainer.batches._batch(0, 0), trainer.batches._batch(0, 1)
        trainer.update(first)
        here = trainer.update(second).loss
        return here, trainer.update(replace(second, fresh=True)).loss

    def test_1_starts_every_lane_from_nothing(self) -> None:
        here, alone = self.losses(1.0)
        assert here == pytest.approx(alone, abs=1e-7)

    def test_1_starts_from_a_learned_state(self) -> None:
        here, alone = self.losses(1.0, learn_initial=True, cell="skip(d=2)")
        assert here == pytest.approx(alone, abs=1e-7)

    def test_0_carries_every_lane(self) -> None:
        here, alone = self.losses(0.0)
        assert abs(here - alone) > 1e-4


class TestNotANumber:
    def test_a_step_is_skipped_and_the_weights_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trainer = make_trainer(replace(QUICK, average="ema:0.9"))
        trainer.update(trainer.batches.next())
        before = {n: v.clone() for n, v in trainer.model.state_dict().items()}
        averaged = {n: v.clone() for n, v in trainer.average.model.state_dict().items()}
        with monkeypatch.context() as patch:
            patch.setattr(trainer, "loss", lambda logits, t, w: weighted_nll(logits, t, w) * math.nan)
            event = trainer.update(trainer.batches.next())
        assert event.skipped
        assert math.isnan(event.loss)
        assert (trainer.skipped, trainer.in_a_row, trainer.step) == (1, 1, 2)
        assert trainer.state is None
        assert all(torch.equal(before[n], v) for n, v in trainer.model.state_dict().items())
        assert all(torch.equal(averaged[n], v) for n, v in trainer.average.model.state_dict().items())
        event = trainer.update(trainer.batches.next())
        assert not event.skipped
        assert math.isfinite(event.loss)
        assert (trainer.skipped, trainer.in_a_row) == (1, 0)
        assert not torch.equal(before["output.weight"], trainer.model.output.weight)

    def test_a_gradient_that_is_not_a_number_is_skipped_too(self) -> None:
        trainer = make_trainer()
        trainer.model.output.bias.register_hook(lambda gradient: gradient * math.inf)
        before = trainer.model.output.weight.detach().clone()
        event = trainer.update(trainer.batches.next())
        assert event.skipped
        assert math.isfinite(event.loss)
        assert torch.equal(before, trainer.model.output.weight)

    def test_after_five_in_a_row_it_gives_up_with_a_sentence(self) -> None:
        trainer = make_trainer(replace(QUICK, steps=50, validate_every=50, save_every=50))
        with torch.no_grad():
            trainer.model.embedding.weight.fill_(math.nan)
        found = events(trainer)
        assert [type(event) for event in found] == [Step] * PATIENCE_WITH_NAN + [Finished]
        last = found[-1]
        assert isinstance(last, Finished)
        assert last.failed
        assert last.step == PATIENCE_WITH_NAN == 5
        assert "not finite" in last.why
        assert "training.learning_rate" in last.why

    def test_four_in_a_row_are_forgiven(self) -> None:
        trainer = make_trainer(replace(QUICK, steps=12))
        calls = 0

        def poison(gradient: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return gradient * math.nan if calls % 5 else gradient

        trainer.model.output.bias.register_hook(poison)
        found = events(trainer)
        assert found[-1] == Finished(12, "12 steps made")
        assert trainer.skipped == 10


class TestClipping:
    def parameters(self) -> list[nn.Parameter]:
        made = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(3))]
        made[0].grad, made[1].grad = torch.tensor([3.0, -4.0]), torch.tensor([12.0])
        return made

    def test_by_norm_keeps_the_direction(self) -> None:
        one, two, untouched = self.parameters()
        assert float(clip_gradients([one, two, untouched], 1.3, None)) == pytest.approx(13)
        torch.testing.assert_close(one.grad, torch.tensor([0.3, -0.4]))
        torch.testing.assert_close(two.grad, torch.tensor([1.2]))
        assert untouched.grad is None

    def test_a_small_norm_is_left_alone(self) -> None:
        one, two, _ = self.parameters()
        clip_gradients([one, two], 14.0, None)
        assert one.grad.tolist() == [3.0, -4.0]
        assert two.grad.tolist() == [12.0]

    def test_by_value_cuts_each_number(self) -> None:
        one, two, _ = self.parameters()
        assert float(clip_gradients([one, two], None, 3.5)) == pytest.approx(13)
        assert one.grad.tolist() == [3.0, -3.5]
        assert two.grad.tolist() == [3.5]

    def test_by_value_and_then_by_norm(self) -> None:
        one, two, _ = self.parameters()
        clip_gradients([one, two], 0.5, 4.0)
        expected = torch.tensor([3.0, -4.0, 4.0]) * 0.5 / math.sqrt(41)
        torch.testing.assert_close(torch.cat([one.grad, two.grad]), expected)

    def test_without_gradients_the_norm_is_zero(self) -> None:
        assert float(clip_gradients([nn.Parameter(torch.zeros(2))], 1.0, 1.0)) == 0

    @pytest.mark.parametrize("clip", [{"clip_norm": 0.01}, {"clip_norm": None, "clip_value": 0.001}])
    def test_the_trainer_clips_and_tells_the_norm_before(self, clip: dict[str, float]) -> None:
        plain = replace(QUICK, optimiser="sgd", momentum=0.0, warmup=0, schedule="constant", learning_rate=1.0)
        free, bound = make_trainer(replace(plain, clip_norm=None)), make_trainer(replace(plain, **clip))
        first = [p.detach().clone() for p in free.model.parameters()]
        one, other = (trainer.update(trainer.batches.next()) for trainer in (free, bound))
        assert one.gradient_norm == other.gradient_norm > 0.1
        step, least = (
            torch.cat([(a - b.detach()).flatten() for a, b in zip(first, t.model.parameters(), strict=True)])
            for t in (free, bound)
        )
        expected = step * 0.01 / one.gradient_norm if "clip_value" not in clip else step.clamp(-0.001, 0.001)
        torch.testing.assert_close(least, expected, rtol=1e-3, atol=1e-6)


class TestSchedules:
    def test_warmup_rises_in_a_line(self) -> None:
        assert [learning_rate("constant", t, 100, 4, 2.0) for t in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
        assert learning_rate("plateau", 0, 100, 0, 2.0) == 2.0

    def test_cosine_falls_to_a_hundredth(self) -> None:
        rates = [learning_rate("cosine", t, 100, 10, 1.0) for t in range(101)]
        assert rates[10] == pytest.approx(1.0)
        assert rates[55] == pytest.approx(0.505)
        assert rates[100] == pytest.approx(0.01)
        assert all(a > b for a, b in pairwise(rates[10:]))
        assert all(a < b for a, b in pairwise(rates[:10]))

    def test_plateau_halves_after_evaluations_without_a_better_one(self) -> None:
        plateau = Plateau(wait=2)
        factors = []
        for value in (3.0, 2.0, 2.0, 2.1, 2.0, 1.9, 2.0, 2.0, 2.0):
            plateau.see(value)
            factors.append(plateau.factor)
        assert factors == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]

    def test_the_trainer_follows_them(self) -> None:
        settings = replace(QUICK, steps=20, schedule="plateau", learning_rate=0.1, warmup=2, validate_every=2)
        found = events(make_trainer(settings, judge=lambda _: 1.0))
        rates = [event.learning_rate for event in found if isinstance(event, Step)]
        assert rates[:3] == pytest.approx([0.05, 0.1, 0.1])
        assert rates[8] == pytest.approx(0.05)  # the first evaluation was the best, the fourth was the third without
        assert rates[-1] == pytest.approx(0.025)


class TestStopping:
    def test_patience(self) -> None:
        values = iter([3.0, 2.0, 2.5, 2.0, 2.2, 1.0])
        trainer = make_trainer(
            replace(QUICK, steps=100, validate_every=2, save_every=50, patience=3), judge=lambda _: next(values)
        )
        found = events(trainer)
        assert found[-1] == Finished(10, "no better validation in 3 evaluations")
        assert [e.valid for e in found if isinstance(e, Validated)] == [3.0, 2.0, 2.5, 2.0, 2.2]
        assert [e.is_best for e in found if isinstance(e, Validated)] == [True, True, False, False, False]
        assert [(e.step, e.is_best) for e in found if isinstance(e, Save)] == [(2, True), (4, True), (10, False)]

    def test_a_small_gradient(self) -> None:
        trainer = make_trainer(replace(QUICK, stop_at_gradient=1e9))
        found = events(trainer)
        assert [type(e) for e in found] == [Step, Validated, Save, Finished]
        assert found[-1] == Finished(1, "the norm of the gradient fell below 1000000000.0")

    def test_a_large_gradient_goes_on(self) -> None:
        found = events(make_trainer(replace(QUICK, stop_at_gradient=1e-9)))
        assert found[-1] == Finished(8, "8 steps made")

    def test_the_last_step_is_validated_and_saved(self) -> None:
        found = events(make_trainer(replace(QUICK, steps=5, validate_every=100, save_every=100)))
        assert [type(e) for e in found] == [Step] * 5 + [Validated, Save, Finished]

    @pytest.mark.parametrize("settings", [{"patience": 1}, {"stop_at_gradient": 1e9}], ids=str)
    def test_a_run_that_has_stopped_makes_no_step_when_it_is_resumed(self, settings: dict[str, Any]) -> None:
        settings = replace(QUICK, steps=50, validate_every=2, save_every=2, **settings)
        trainer = make_trainer(settings, judge=lambda _: 1.0)
        stopped = events(trainer)
        again = make_trainer(settings, judge=lambda _: 1.0)
        again.restore(trainer.checkpoint())
        assert events(again) == [stopped[-1]]


class TestOverTime:
    def test_weights(self) -> None:
        def made(form: str, lengths: Tensor | None = None) -> list[list[float]]:
            return step_weights(2, 3, lengths, form, torch.device("cpu"), torch.float64).tolist()

        assert made("mean") == made("sum") == [[1.0, 1.0, 1.0]] * 2
        assert made("1/t") == [[1.0, 1 / 2, 1 / 3]] * 2
        assert made("sum", torch.tensor([3, 1])) == [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
        assert made("1/t", torch.tensor([2, 0])) == [[1.0, 1 / 2, 0.0], [0.0, 0.0, 0.0]]

    def test_an_unknown_form_is_refused(self) -> None:
        with pytest.raises(OptionError, match="Did you mean 'mean'"):
            check(replace(QUICK, over_time="meen"))

    @pytest.mark.parametrize("form", ["mean", "sum", "1/t"])
    def test_the_trainer_minimises_them(self, form: str) -> None:
        trainer = make_trainer(replace(QUICK, truncation="none", over_time=form), sequences)
        batch = trainer.batches._batch(0, 0)
        logits, _ = trainer.model(batch.inputs, None, batch.lengths)
        losses = nn.functional.cross_entropy(logits.detach().mT, batch.targets, reduction="none")
        rows = [losses[b, :n] for b, n in enumerate(batch.lengths.tolist())]
        expected = {
            "mean": torch.cat(rows).mean(),
            "sum": torch.stack([row.sum() for row in rows]).mean(),
            "1/t": torch.stack([(row / torch.arange(1, len(row) + 1)).sum() for row in rows]).mean(),
        }[form]
        assert trainer.update(batch).loss == pytest.approx(float(expected), rel=1e-5)


class TestAveraging:
    def test_the_averaged_weights_are_what_is_judged(self) -> None:
        judged: list[LanguageModel] = []
        trainer = make_trainer(replace(QUICK, average="ema:0.99"), judge=lambda model: judged.append(model) or 1.0)
        first = trainer.average.model.output.weight.detach().clone()
        events(trainer)
        assert judged
        assert all(model is trainer.average.model for model in judged)
        moved = (trainer.average.model.output.weight - first).norm()
        assert 0 < moved < (trainer.model.output.weight - first).norm()

    def test_the_average_by_hand(self) -> None:
        trainer = make_trainer(replace(QUICK, average="ema:0.15"))
        expected = trainer.model.output.weight.detach().clone()
        for step in range(1, 5):
            trainer.update(trainer.batches.next())
            decay = min(0.15, step / (step + 10))
            expected = decay * expected + (1 - decay) * trainer.model.output.weight.detach()
        torch.testing.assert_close(trainer.average.model.output.weight.detach(), expected)

    def test_without_it_the_model_itself_is_evaluated(self) -> None:
        trainer = make_trainer()
        assert trainer.evaluated is trainer.model


def test_training_lowers_the_loss() -> None:
    pattern = torch.arange(400) % V
    trainer = make_trainer(replace(QUICK, steps=60, learning_rate=0.03), lambda: Chunks(pattern, 3, 6))
    losses = [event.loss for event in events(trainer) if isinstance(event, Step)]
    assert losses[0] > 1.5
    assert losses[-1] < 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch_size": 0},
        {"save_every": 0},
        {"reset": 1.5},
        {"average": "ema:1.0"},
        {"average": "emma:0.9"},
        {"feeding": "scheduled"},
        {"feeding": "scheduled:2"},
        {"optimiser": "adamv"},
        {"schedule": "cosin"},
        {"truncation": "every"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        check(replace(QUICK, **wrong))
