"""The host waits for the device at reports, evaluations and checkpoints, and at no step between; the numbers are the same."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from recurra.data.batches import Batch, Chunks
from recurra.data.labelled_batches import LabelledSequences
from recurra.data.pairs import Pairs
from recurra.models.classify import Classifier
from recurra.models.tag import Tagger
from recurra.tasks.translate import pair_loss
from recurra.training.distributed import Ranks
from recurra.training.evaluation import Tally
from recurra.training.events import Finished, Save, Step
from recurra.training.labelling import label_loss
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll
from tests.helpers import make_labeller, make_translator
from tests.training.test_loop import (
    QUICK,
    RESUMED,
    assert_same_checkpoint,
    events,
    lanes,
    make_trainer,
    sequences,
    told,
)


class Reads(TorchDispatchMode):
    """Counts how often a number is read, for which a host would wait for a GPU.

    Whole numbers do not count: they are lengths and sizes, which stay on the host.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            self.count += args[0].dtype != torch.int64
        return func(*args, **(kwargs or {}))


def poison(trainer: Trainer, bad: set[int]) -> None:
    """Make the gradients of some steps, counted from 1, no numbers."""
    calls = 0

    def hook(gradient: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return gradient * math.nan if calls in bad else gradient

    trainer.model.output.bias.register_hook(hook)


@pytest.mark.parametrize("bad", [set(), {1, 2, 6, 7, 8, 12}], ids=["sound", "skipped"])
@pytest.mark.parametrize("name", [name for name in RESUMED if name != "window"])
def test_rare_reports_give_the_same_numbers(name: str, bad: set[int]) -> None:
    settings, batches, model = RESUMED[name]
    settings = replace(settings, steps=15, validate_every=9, save_every=10)
    found = []
    for report_every in (1, 5):
        trainer = make_trainer(settings, batches, **model)
        assert trainer.report_every == 1
        trainer.report_every = report_every
        poison(trainer, bad)
        found.append((repr(told(events(trainer))), trainer.checkpoint()))  # as text: what is no number equals none
        assert trainer.skipped == len(bad)
    (often, one), (rarely, other) = found
    assert often == rarely
    assert_same_checkpoint(one, other)


def reads(trainer: Trainer, steps: int) -> int:
    with Reads() as found:
        for _ in range(steps):
            trainer.advance(trainer.batches.next())
    return found.count


@pytest.mark.parametrize("average", [None, "ema:0.9"])
@pytest.mark.parametrize("batches", [lanes, sequences])
def test_steps_read_nothing_from_the_device(batches: Any, average: str | None) -> None:
    trainer = make_trainer(replace(QUICK, average=average, l1=0.1), batches)
    assert reads(trainer, 6) == 0
    assert [event.step for event in trainer.report()] == [1, 2, 3, 4, 5, 6]


def test_the_count_sees_what_is_read() -> None:
    trainer = make_trainer()
    trainer.loss = lambda logits, targets, weights: logits.sum() * float(logits.detach().mean())
    assert reads(trainer, 3) == 3


def test_the_events_of_many_steps_come_with_one_report(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(replace(QUICK, steps=12, validate_every=10, save_every=6))
    trainer.report_every = 4
    made: list[int] = []
    report = Trainer.report

    def noted(self: Trainer) -> Any:
        made.append(len(self.pending))
        return report(self)

    monkeypatch.setattr(Trainer, "report", noted)
    found = events(trainer)
    assert made == [4, 2, 2, 2, 2]  # after 4, 6 (saved), 8, 10 (validated) and 12
    assert [event.step for event in found if isinstance(event, Step)] == list(range(1, 13))


@pytest.mark.parametrize("model", [Classifier, Tagger])
def test_labels_are_learned_without_reading(model: Any) -> None:
    lengths = torch.tensor([3, 5, 2, 4])
    values, per_step = torch.randint(6, (14,)), model is Tagger
    targets = torch.randint(3, (14 if per_step else 4,))
    batches = LabelledSequences(values, lengths, targets, 4, per_step=per_step)
    made = make_labeller(model, 6, 3, "gru", 5, tokens=True, engine="fused")
    trainer = Trainer(made, batches, Training(steps=4, batch_size=4), lambda _: 0.0, whole=label_loss)
    assert reads(trainer, 2) == 0


def test_pairs_are_learned_without_reading() -> None:
    pairs = [(torch.randint(5, (n,)), torch.randint(6, (n + 2,))) for n in (3, 5, 2, 4)]
    made = make_translator(5, 6, "gru", 4, context="attention", longest=9, engine="fused")
    trainer = Trainer(made, Pairs(pairs, 4), Training(steps=4, batch_size=4), lambda _: 0.0, whole=pair_loss)
    assert reads(trainer, 2) == 0


def test_an_evaluation_reads_nothing_before_its_end() -> None:
    trainer = make_trainer()
    batches = list(Chunks(torch.arange(90) % 7, 2, 8, shuffle=False).one_pass())
    tally = Tally(weighted_nll)
    with Reads() as found:
        for batch in batches:
            tally.add(trainer.model(batch.inputs, None, batch.lengths)[0], batch)
    assert found.count == 0
    assert tally.score(Ranks(), torch.device("cpu")).tokens == 89


def test_steps_that_are_no_numbers_are_found_at_the_next_report() -> None:
    trainer = make_trainer(replace(QUICK, steps=50, validate_every=50, save_every=50))
    trainer.report_every = 8
    poison(trainer, set(range(2, 8)))
    found = events(trainer)
    assert [type(event) for event in found] == [Step] * 8 + [Finished]
    last = found[-1]
    assert isinstance(last, Finished)
    assert last.failed
    assert "5 steps in a row" in last.why


def test_weights_that_are_no_numbers_are_never_saved() -> None:
    trainer = make_trainer(replace(QUICK, steps=50, validate_every=3, save_every=3), judge=lambda _: 1.0)
    found = []
    for event in trainer.events():
        found.append(event)
        if event.step == 2:
            with torch.no_grad():
                trainer.model.recurrent.layers[0][0].b.fill_(math.inf)  # the loss and its gradient stay numbers
    assert not any(isinstance(event, Save) for event in found)
    last = found[-1]
    assert isinstance(last, Finished)
    assert last.failed
    assert last.step == 3
    assert "weights are no longer finite" in last.why


def test_a_first_step_that_is_skipped_leaves_no_momentum() -> None:
    trainer = make_trainer(replace(QUICK, optimiser="sgd"))
    poison(trainer, {1})
    assert trainer.update(trainer.batches.next()).skipped
    assert all(not state["momentum_buffer"].any() for state in trainer.optimiser.state.values())


@pytest.mark.parametrize("setting", [{"truncation": "window:4"}, {"stop_at_gradient": 1.0}], ids=str)
def test_what_needs_the_numbers_of_every_step_reads_them(
    setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "device", torch.device("cuda"))
    assert make_trainer(QUICK).report_every > 1
    assert make_trainer(replace(QUICK, **setting)).report_every == 1


def test_a_batch_goes_to_a_device_with_all_but_its_lengths() -> None:
    batch = Batch(torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([3, 2]), fresh=True, scored=torch.ones(2, 3))
    moved = batch.to(torch.device("meta"))
    assert moved.inputs.device.type == moved.targets.device.type == moved.scored.device.type == "meta"
    assert moved.lengths is batch.lengths
