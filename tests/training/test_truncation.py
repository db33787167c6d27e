"""Truncated gradients equal their definition: each step's loss run by itself from f(t), with the state before it as numbers."""

import pytest
import torch
from torch import Tensor

from recurra.data.batches import Chunks
from recurra.errors import OptionError
from recurra.layers.states import detach
from recurra.models.language import LanguageModel
from recurra.training.loop import Trainer, Training
from recurra.training.objectives import weighted_nll
from recurra.training.truncation import Truncation, backward, every, none, read_truncation, window
from recurra.types import State
from tests.helpers import make_language_model

B, T, V, H = 2, 11, 5, 8
CASES = {
    "lstm": {"cell": "lstm"},
    "gru": {"cell": "gru"},
    "skip": {"cell": "skip(d=3)"},
    "clockwork": {"cell": "clockwork"},
    "two layers": {"cell": "lstm", "layers": 2},
    "learned initial state": {"cell": "gru", "learn_initial": True},
    "delays, two layers, learned initial state": {"cell": "skip(d=3)", "layers": 2, "learn_initial": True},
}


def make_model(name: str) -> LanguageModel:
    model = make_language_model(V, hidden_size=H, engine="eager", **CASES[name]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def make_data() -> tuple[Tensor, Tensor, Tensor]:
    weights = torch.rand(B, T, dtype=torch.float64)
    return torch.randint(V, (B, T)), torch.randint(V, (B, T)), weights


def gradients(model: LanguageModel) -> dict[str, Tensor]:
    found = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    return found


def by_definition(
    model: LanguageModel,
    tokens: Tensor,
    targets: Tensor,
    weights: Tensor,
    truncation: Truncation,
    state: State | None = None,
) -> tuple[float, dict[str, Tensor]]:
    total = 0.0
    for t in range(tokens.shape[1]):
        first, before = truncation.earliest(t), detach(state)
        if first:
            with torch.no_grad():
                _, before = model(tokens[:, :first], before)
        logits, _ = model(tokens[:, first : t + 1], before)
        value = weighted_nll(logits[:, -1:], targets[:, t : t + 1], weights[:, t : t + 1])
        value.backward()
        total += float(value.detach())
    return total, gradients(model)


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("truncation", [every(1), every(3), every(4), window(1), window(3), window(4)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_definition(name: str, truncation: Truncation) -> None:
    model, data = make_model(name), make_data()
    expected, slow = by_definition(model, *data, truncation)
    value, _ = backward(model, *data, truncation, weighted_nll)
    assert float(value) == pytest.approx(expected, abs=1e-10)
    assert_same(gradients(model), slow)


@pytest.mark.parametrize("truncation", [every(3), window(3)], ids=str)
@pytest.mark.parametrize("name", ["lstm", "skip", "learned initial state"])
def test_equal_to_the_definition_with_a_state_that_was_carried(name: str, truncation: Truncation) -> None:
    model, data = make_model(name), make_data()
    with torch.no_grad():
        _, state = model(torch.randint(V, (B, 5)))
    expected, slow = by_definition(model, *data, truncation, state)
    value, _ = backward(model, *data, truncation, weighted_nll, state)
    assert float(value) == pytest.approx(expected, abs=1e-10)
    assert_same(gradients(model), slow)


@pytest.mark.parametrize("truncation", [every(T), every(T + 4), window(T - 1), window(T), window(T + 4)], ids=str)
@pytest.mark.parametrize("name", ["lstm", "skip", "delays, two layers, learned initial state"])
def test_a_reach_as_long_as_the_text_is_no_truncation(name: str, truncation: Truncation) -> None:
    model, data = make_model(name), make_data()
    value, final = backward(model, *data, truncation, weighted_nll)
    found = gradients(model)
    logits, state = model(data[0])
    weighted_nll(logits, *data[1:]).backward()
    assert_same(found, gradients(model))
    assert float(value) == pytest.approx(float(weighted_nll(logits.detach(), *data[1:])), abs=1e-10)
    for one, other in zip(final, state, strict=True):
        for a, b in zip(one[0], other[0], strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
            assert not a.requires_grad


@pytest.mark.parametrize("truncation", [every(2), window(2)], ids=str)
def test_truncation_changes_the_gradient_and_not_the_loss(truncation: Truncation) -> None:
    model, data = make_model("gru"), make_data()
    value, _ = backward(model, *data, truncation, weighted_nll)
    cut = gradients(model)
    whole, _ = backward(model, *data, none(), weighted_nll)
    full = gradients(model)
    assert float(value) == pytest.approx(float(whole), abs=1e-10)
    assert not torch.allclose(cut["embedding.weight"], full["embedding.weight"], atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_every_with_sequences_of_different_lengths(name: str) -> None:
    model, (tokens, targets, weights) = make_model(name), make_data()
    lengths = torch.tensor([T, 4])
    weights = torch.where(torch.arange(T) < lengths[:, None], weights, 0)
    expected, slow = by_definition(model, tokens, targets, weights, every(3))
    value, _ = backward(model, tokens, targets, weights, every(3), weighted_nll, lengths=lengths)
    assert float(value) == pytest.approx(expected, abs=1e-10)
    assert_same(gradients(model), slow)


@pytest.mark.parametrize("name", CASES)
def test_chunks_of_every_with_carried_state_equal_one_long_text(name: str) -> None:
    model, data = make_model(name), make_data()
    expected, slow = by_definition(model, *data, every(2))
    total, state = 0.0, None
    for start in range(0, T, 4):
        part = [each[:, start : start + 4] for each in data]
        value, state = backward(model, *part, every(2), weighted_nll, state)
        total += float(value)
    assert total == pytest.approx(expected, abs=1e-10)
    assert_same(gradients(model), slow)


@pytest.mark.parametrize("k", [3, 4, 9])
@pytest.mark.parametrize("name", ["lstm", "skip", "clockwork", "two layers"])
def test_the_trainers_chunks_of_window_equal_one_long_text(name: str, k: int) -> None:
    """With a learning rate of 0, the gradients of all chunks add up to that of the lanes read in one go."""
    model = make_model(name)
    batches = Chunks(torch.randint(V, (41,)), 2, 4, shuffle=False)
    settings = Training(
        truncation=f"window:{k}", learning_rate=0.0, optimiser="sgd", warmup=0, clip_norm=None, reset=0.0
    )
    trainer = Trainer(model, batches, settings, lambda _: 0.0)
    total = 0.0
    added: dict[str, Tensor] = {}
    batches = [batches._batch(0, step) for step in range(batches.steps_per_epoch)]
    for batch in batches:
        event = trainer.update(batch)
        total += event.loss * batch.tokens
        added = {n: added.get(n, 0) + g * batch.tokens for n, g in gradients(model).items()}
    inputs, targets = (torch.cat([getattr(b, part) for b in batches], dim=1) for part in ("inputs", "targets"))
    assert inputs.shape == (2, 20)
    expected, slow = by_definition(
        model, inputs, targets, torch.ones(inputs.shape, dtype=torch.float64), Truncation("window", k)
    )
    assert total == pytest.approx(expected, abs=1e-9)
    for parameter, value in slow.items():
        torch.testing.assert_close(added[parameter], value, rtol=0, atol=1e-10)


def test_the_earliest_step_that_each_loss_reaches() -> None:
    assert [none().earliest(t) for t in range(6)] == [0] * 6
    assert [every(2).earliest(t) for t in range(6)] == [0, 0, 2, 2, 4, 4]
    assert [window(2).earliest(t) for t in range(6)] == [0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("none", none()), ("every:128", every(128)), ("window:32", window(32)), (" every:1 ", every(1))],
)
def test_reading(text: str, expected: Truncation) -> None:
    assert read_truncation(text) == expected
    assert str(expected) == text.strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("evry:3", "Did you mean 'every'"),
        ("every", "Write none, every:128 or window:32"),
        ("none:3", "cannot be read"),
        ("every:", "cannot be read"),
        ("window:-1", "cannot be read"),
        ("every:1.5", "cannot be read"),
        ("", "cannot be read"),
        ("window:0", "at least 1"),
        ("every:0", "at least 1"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_truncation(text)
