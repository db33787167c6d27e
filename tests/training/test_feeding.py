"""What a network reads in training: the true symbols, its own, or some of each; and the gradient of what it has read."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recurra import Recurrent
from recurra.data.batches import Batch, Batches, Chunks, Sequences
from recurra.errors import OptionError
from recurra.models.forecast import Forecaster
from recurra.models.language import LanguageModel
from recurra.training.events import Save, Step
from recurra.training.feeding import own_inputs, read_feeding
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll
from tests.helpers import make_language_model

V, H, B, T = 7, 8, 4, 9
IDS = torch.randint(V, (260,), generator=torch.Generator().manual_seed(1))
QUICK = Training(steps=8, batch_size=B, truncation="every:6", warmup=2, validate_every=4, save_every=4, reset=0.0)


def make_model(loud: float = 1.0, **options: float) -> LanguageModel:
    """With `loud` logits there is always one symbol that is certain."""
    torch.manual_seed(4)
    model = make_language_model(V, "gru", H, engine="eager", **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
        for parameter in model.output.parameters():
            parameter *= loud
    return model


def lanes() -> Batches:
    return Chunks(IDS, B, 6, seed=3)


def sequences() -> Batches:
    return Sequences([IDS[k * 9 : k * 9 + 4 + k % 5] for k in range(14)], B, seed=3)


def make_trainer(settings: Training, model: LanguageModel, batches: Callable[[], Batches] = lanes) -> Trainer:
    torch.manual_seed(5)
    return Trainer(model, batches(), settings, lambda model: 0.0)


def watch(trainer: Trainer) -> list[Tensor]:
    """What the model reads in its passes that are differentiated, batch by batch."""
    seen: list[Tensor] = []
    trainer.model.register_forward_pre_hook(
        lambda module, given: seen.append(given[0].clone()) if torch.is_grad_enabled() else None
    )
    return seen


def greedy(model: LanguageModel, first: Tensor, count: int) -> Tensor:
    """Each symbol the most probable one after all before it, from a whole pass for each."""
    model.eval()
    text = first
    for _ in range(count):
        text = torch.cat([text, model(text)[0][:, -1].argmax(-1)[:, None]], dim=1)
    model.train()
    return text


class TestInputs:
    def test_free_inputs_are_the_greedy_continuation_of_a_model_that_is_certain(self) -> None:
        model = make_model(loud=1e5)
        inputs = torch.randint(V, (B, T))
        mixed = own_inputs(model, inputs, None, 1.0)
        assert torch.equal(mixed, greedy(model, inputs[:, :1], T - 1))
        assert not torch.equal(mixed[:, 1:], inputs[:, 1:])

    def test_the_first_symbol_is_read_from_the_state_that_was_carried(self) -> None:
        model = make_model(loud=1e5)
        past = torch.randint(V, (B, 5))
        inputs = torch.randint(V, (B, T))
        _, state = model(past)
        mixed = own_inputs(model, inputs, state, 1.0)
        assert torch.equal(mixed, greedy(model, torch.cat([past, inputs[:, :1]], 1), T - 1)[:, 5:])
        assert torch.equal(own_inputs(model, torch.cat([past, inputs], 1), None, 1.0, read=5)[:, 5:], mixed)

    def test_own_symbols_come_as_often_as_they_are_probable(self) -> None:
        model = make_model()
        inputs = torch.full((4000, 2), 3)
        expected = model(inputs[:1, :1])[0][0, 0].softmax(-1).detach()
        drawn = own_inputs(model, inputs, None, 1.0)[:, 1]
        found = torch.bincount(drawn, minlength=V) / len(drawn)
        assert float((found - expected).abs().max()) < 0.035  # four standard deviations

    @pytest.mark.parametrize("share", [0.2, 0.7])
    def test_a_share_of_the_inputs_is_replaced(self, share: float) -> None:
        """A model that is certain of a symbol that never occurs shows which inputs are its own."""
        model = make_model()
        with torch.no_grad():
            model.output.bias[6] += 1e4
        inputs = torch.randint(6, (100, 41))
        mixed = own_inputs(model, inputs, None, share)
        own = mixed == 6
        assert not own[:, 0].any()
        assert torch.equal(torch.where(own, inputs, mixed), inputs)
        assert float(own[:, 1:].double().mean()) == pytest.approx(share, abs=0.03)  # four standard deviations
        assert float(own.double().mean(1).std()) > 0, "each lane draws for itself"

    @pytest.mark.parametrize("training", [True, False])
    def test_the_model_and_the_batch_are_left_as_they_were(self, training: bool) -> None:
        model = make_model(dropout=0.5).train(training)
        inputs = torch.randint(V, (B, T))
        before = inputs.clone()
        own_inputs(model, inputs, None, 1.0)
        assert torch.equal(inputs, before)
        assert model.training == training


class TestTrainer:
    def test_teacher_leaves_the_inputs_alone(self) -> None:
        trainer = make_trainer(QUICK, make_model())
        seen = watch(trainer)
        batches = [trainer.batches.next() for _ in range(3)]
        for batch in batches:
            trainer.update(batch)
        assert len(seen) == 3
        for found, batch in zip(seen, batches, strict=True):
            assert torch.equal(found, batch.inputs)

    @pytest.mark.parametrize("policy", ["free", "scheduled:1"])
    def test_the_gradient_is_that_of_a_plain_pass_over_what_was_read(self, policy: str) -> None:
        settings = replace(QUICK, feeding=policy, clip_norm=None, optimiser="sgd")
        trainer = make_trainer(settings, make_model())
        trainer.place = 6.0 if policy == "scheduled:1" else 0.0
        seen = watch(trainer)
        batch = trainer.batches.next()
        plain = make_model()
        step = trainer.update(batch)
        (mixed,) = seen
        assert torch.equal(mixed[:, 0], batch.inputs[:, 0])
        assert not torch.equal(mixed, batch.inputs)
        loss = weighted_nll(plain(mixed)[0], batch.targets, torch.ones(B, 6).double() / batch.tokens)
        loss.backward()
        assert step.loss == pytest.approx(float(loss.detach()), abs=1e-12)
        for found, expected in zip(trainer.model.parameters(), plain.parameters(), strict=True):
            assert found.grad is not None
            torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=1e-12)

    def test_under_windows_own_symbols_follow_what_was_read_before_the_border(self) -> None:
        """The state is kept from before the last steps, which are read again: the draws must take them in as well."""
        settings = replace(QUICK, truncation="window:4", length=6, feeding="free", optimiser="sgd", learning_rate=1e-30)
        model = make_model(loud=1e5)
        trainer = make_trainer(settings, model)
        read = torch.empty(B, 0, dtype=torch.int64)
        for _ in range(3):
            batch = trainer.batches.next()
            trainer.update(batch)
            expected = greedy(model, torch.cat([read, batch.inputs[:, :1]], 1), 5)
            assert trainer.tail is not None
            assert torch.equal(trainer.tail, expected[:, -4:])
            read = expected

    @pytest.mark.parametrize("batches", [lanes, sequences])
    @pytest.mark.parametrize("policy", ["teacher", "free", "scheduled:0.5"])
    def test_it_trains_and_resumes_bit_for_bit(self, policy: str, batches: Callable[[], Batches]) -> None:
        truncation = "none" if batches is sequences else "every:6"
        settings = replace(QUICK, feeding=policy, truncation=truncation)
        whole = make_trainer(settings, make_model(dropout=0.2), batches)
        kept = []
        losses = []
        for event in whole.events():
            if isinstance(event, Save) and event.step == 4:
                made = event.make()  # safe to keep: copied before training goes on
                kept.append(
                    replace(
                        made,
                        weights={k: v.clone() for k, v in made.weights.items()},
                        tensors={k: v.clone() for k, v in made.tensors.items()},
                    )
                )
            if isinstance(event, Step):
                losses.append(event.loss)
        torch.rand(3)
        again = make_trainer(settings, make_model(dropout=0.2), batches)
        again.restore(kept[0])
        assert [event.loss for event in again.events() if isinstance(event, Step)] == losses[4:]
        for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
            assert torch.equal(one, other)

    @pytest.mark.parametrize("policy", ["free", "scheduled:1"])
    def test_it_learns(self, policy: str) -> None:
        """A text of one symbol, which a model that reads itself can learn to say."""
        settings = replace(QUICK, feeding=policy, steps=40, learning_rate=0.05)
        trainer = make_trainer(settings, make_model(), lambda: Chunks(torch.full((200,), 2), B, 6))
        losses = [event.loss for event in trainer.events() if isinstance(event, Step)]
        assert losses[-1] < 0.1 < losses[0]

    def test_past_the_end_of_a_sequence_nothing_is_scored(self) -> None:
        inputs, targets = torch.randint(V, (2, 5)), torch.randint(V, (2, 5))
        lengths = torch.tensor([5, 2])
        other = torch.where(torch.arange(5) < lengths[:, None], targets, (targets + 1) % V)
        losses = []
        for given in (targets, other):
            trainer = make_trainer(replace(QUICK, feeding="free", truncation="none"), make_model(), sequences)
            losses.append(trainer.update(Batch(inputs, given, lengths, fresh=True)).loss)
        assert losses[0] == losses[1]


class TestSchedule:
    def test_the_share_rises_in_a_line(self) -> None:
        feeding = read_feeding("scheduled:0.4")
        assert [feeding.share(step, 5) for step in range(5)] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
        assert feeding.share(9, 5) == pytest.approx(0.4)

    @pytest.mark.parametrize(("policy", "share"), [("teacher", 0.0), ("free", 1.0)])
    def test_the_others_never_change(self, policy: str, share: float) -> None:
        assert {read_feeding(policy).share(step, 5) for step in range(6)} == {share}

    def test_a_training_of_one_step_has_a_share(self) -> None:
        assert read_feeding("scheduled:0.4").share(0, 1) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("techer", "Did you mean 'teacher'"),
        ("scheduled", "scheduled:0.25"),
        ("scheduled:0", "scheduled:0.25"),
        ("scheduled:1.5", "scheduled:0.25"),
        ("scheduled:0.2.5", "training.feeding"),
        ("free:0.5", "cannot be read"),
        ("teacher:1", "cannot be read"),
        ("", "training.feeding"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_feeding(text)


def test_numbers_that_the_model_draws_itself() -> None:
    torch.manual_seed(0)
    model = Forecaster(Recurrent("gru", 2, H), 2, change=True).double()
    inputs = torch.randn(B, T, 2, dtype=torch.float64)
    mixed = own_inputs(model, inputs, None, 1.0)
    assert torch.equal(mixed[:, 0], inputs[:, 0])
    assert not bool((mixed[:, 1:] == inputs[:, 1:]).any())
    some = own_inputs(model, inputs, None, 0.5)
    kept = (some == inputs).all(-1)
    assert bool((kept == (some == inputs).any(-1)).all())  # a step is drawn as a whole
    assert 0 < int(kept[:, 1:].sum()) < B * (T - 1)
