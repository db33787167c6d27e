"""A schedule that fits into a time budget, on a clock of the test's own."""

import pytest
import torch

from recurra.data.batches import Chunks
from recurra.layers.recurrent import Recurrent
from recurra.models.language import LanguageModel
from recurra.training import loop
from recurra.training.events import Finished, Save, Step, Validated
from recurra.training.loop import Trainer, Training
from recurra.training.plan import VALIDATING, TimePlan


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def follow(seconds: float, steps: int, pace: "list[float]") -> tuple[int, float]:
    """How many steps are made, and how long they take, where step k takes `pace[k]` (the last one for all others)."""
    clock = Clock()
    plan, place, made = TimePlan(seconds, steps, clock), 0.0, 0
    while place < steps:
        clock.now += pace[min(made, len(pace) - 1)]
        place = min(steps, place + plan.stride)
        made += 1
        plan.see(1, steps - place)
    return made, clock.now


def test_where_time_suffices_every_step_is_made() -> None:
    assert follow(100.0, 200, [0.1]) == (200, pytest.approx(20.0))


@pytest.mark.parametrize("pace", [[0.1], [5.0, 0.1], [0.02] * 400 + [0.5], [0.5] * 20 + [0.02]])
def test_the_schedule_ends_in_time(pace: list[float]) -> None:
    """Also with a slow first step, and on a machine that becomes busy or free on the way."""
    made, took = follow(60.0, 10_000, pace)
    assert made < 10_000
    assert 50.0 < took < 62.0


def test_slow_validations_become_seldom() -> None:
    clock = Clock()
    plan = TimePlan(100.0, 10, clock)
    plan.see(1, 999)
    plan.validated(5.0, 1000)  # a hundred of them would take five times the budget
    assert plan.spacing == 10 * 25
    assert 1000 / plan.spacing * 5.0 <= VALIDATING * 100.0
    clock.now = 101.0
    plan.see(1, 900)
    assert plan.stride == 900  # the time is over: the next step is the last


def trainer(**settings: object) -> Trainer:
    torch.manual_seed(0)
    model = LanguageModel(5, Recurrent("gru", 8, 8))
    batches = Chunks(torch.arange(2000) % 5, batch_size=4, length=10)
    usual = {"steps": 400, "length": 10, "validate_every": 100, "save_every": 100, "average": "ema:0.99"}
    return Trainer(model, batches, Training(**{**usual, **settings}), lambda model: 1.0)  # type: ignore[arg-type]


def test_a_trainer_in_a_hurry_finishes_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    made = trainer()
    made.plan = TimePlan(10.0, 100, clock)

    def advance(self: Trainer, batch: object, plain: object = Trainer.advance) -> None:
        clock.now += 0.1
        plain(self, batch)  # type: ignore[operator]

    monkeypatch.setattr(loop.Trainer, "advance", advance)
    events = list(made.events())
    steps = [event for event in events if isinstance(event, Step)]
    assert 90 <= len(steps) <= 110
    assert steps[-1].learning_rate < 0.05 * steps[len(steps) // 3].learning_rate
    assert sum(isinstance(event, Validated) for event in events) == 4  # at the places that were asked for
    assert [event.step for event in events if isinstance(event, Save)][-1] == steps[-1].step
    assert steps[50].planned == pytest.approx(len(steps), abs=5)
    assert isinstance(events[-1], Finished)
    assert "fitted into the time" in events[-1].why
    again = trainer()
    again.restore(made.checkpoint())
    assert again.place == 400
    assert not [event for event in again.events() if isinstance(event, Step)]


def test_with_enough_time_the_numbers_are_those_of_no_plan() -> None:
    plain, planned = trainer(steps=60), trainer(steps=60)
    planned.fit_into(3600.0)
    losses = [[event.loss for event in each.events() if isinstance(event, Step)] for each in (plain, planned)]
    assert losses[0] == losses[1]
    for one, other in zip(plain.evaluated.parameters(), planned.evaluated.parameters(), strict=True):
        assert torch.equal(one, other)
