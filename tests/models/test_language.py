"""The recurrent language model: a step is a sequence of one, tied weights are one matrix, states are cut."""

from typing import Any

import pytest
import torch

from recurra.data.batches import Chunks, Sequences
from recurra.errors import OptionError
from recurra.layers.states import detach
from recurra.models.language import LanguageModel
from recurra.training.evaluation import Score, evaluate
from tests.helpers import make_language_model

V, H, B, T = 6, 8, 3, 7


def make_model(**options: Any) -> LanguageModel:
    given = {"vocabulary_size": V, "cell": "lstm", "hidden_size": H, "engine": "eager"} | options
    return make_language_model(**given).double().eval()


MODELS = [
    {},
    {"cell": "gru", "layers": 2},
    {"cell": "skip(d=3)", "learn_initial": True},
    {"tied": True},
    {"cell": "clockwork"},
]


@pytest.mark.parametrize("options", MODELS, ids=str)
def test_steps_equal_the_sequence(options: dict[str, Any]) -> None:
    model, tokens = make_model(**options), torch.randint(V, (B, T))
    whole, final = model(tokens)
    state = None
    for t in range(T):
        logits, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=0, atol=1e-12)
    for one, other in zip(state, final, strict=True):
        for a, b in zip(one[0], other[0], strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_what_comes_later_changes_nothing() -> None:
    model, tokens = make_model(), torch.randint(V, (B, T))
    other = tokens.clone()
    other[:, 4:] = (other[:, 4:] + 1) % V
    one, two = model(tokens)[0], model(other)[0]
    assert torch.equal(one[:, :4], two[:, :4])
    assert not torch.allclose(one[:, 4:], two[:, 4:])


def test_the_probabilities_of_all_texts_add_up_to_one() -> None:
    """P(y₁ … y_T) is the product of its conditionals, so that the sum over all texts after a first symbol is 1."""
    model = make_model(vocabulary_size=3)
    texts = torch.cartesian_prod(torch.tensor([1]), *[torch.arange(3)] * 3)
    logs = model(texts[:, :-1])[0].log_softmax(-1).gather(2, texts[:, 1:, None])
    assert float(logs.sum((1, 2)).exp().sum().detach()) == pytest.approx(1, abs=1e-12)


def test_tied_weights_are_one_matrix() -> None:
    tied, free = make_model(tied=True), make_model()
    assert tied.output.weight is tied.embedding.weight
    count = {m: sum(p.numel() for p in m.parameters()) for m in (tied, free)}
    assert count[free] - count[tied] == V * H
    tied(torch.randint(V, (B, T)))[0].sum().backward()
    with torch.no_grad():
        tied.embedding.weight[2] += 1
    assert torch.equal(tied.output.weight[2], tied.embedding.weight[2])


def test_tied_weights_of_other_sizes_are_refused() -> None:
    with pytest.raises(OptionError, match="embedding_size equal to hidden_size; got 4 and 8"):
        make_model(tied=True, embedding_size=4)


def test_dropout_is_for_training_only() -> None:
    model, tokens = make_model(dropout=0.5), torch.randint(V, (B, T))
    assert torch.equal(model(tokens)[0], model(tokens)[0])
    model.train()
    assert not torch.allclose(model(tokens)[0], model(tokens)[0])


def test_whole_tokens_are_dropped_at_all_of_their_places() -> None:
    model, tokens = make_model(embedding_dropout=0.5), torch.randint(V, (B, 40))
    torch.testing.assert_close(model.embed(tokens), model.embedding(tokens))
    model.train()
    scales = (model.embed(tokens) / model.embedding(tokens))[..., 0].detach()
    for token in range(V):
        (scale,) = scales[tokens == token].unique().tolist()
        assert scale == pytest.approx(0, abs=1e-9) or scale == pytest.approx(2)
    assert len(scales.round().unique()) == 2


@pytest.mark.parametrize("other", [{"tied": True}, {"deep_output": 1}, {"stop": 3}], ids=str)
def test_an_adaptive_softmax_goes_alone(other: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="softmax=adaptive has maps of its own"):
        make_model(vocabulary_size=40, softmax="adaptive", **other)


def test_a_state_as_numbers_goes_on_without_gradients() -> None:
    model, tokens = make_model(cell="skip(d=3)", layers=2), torch.randint(V, (B, T))
    _, state = model(tokens[:, :4])
    expected, _ = model(tokens[:, 4:], state)
    found, _ = model(tokens[:, 4:], detach(state))
    assert torch.equal(found, expected)
    assert state[0][0][0].requires_grad
    assert not detach(state)[0][0][0].requires_grad
    assert detach(None) is None


class TestEvaluation:
    def test_every_symbol_counts_once(self) -> None:
        """In one lane with carried state, the score is that of the text read in one go."""
        model, ids = make_model(), torch.randint(V, (50,))
        logs = model(ids[None, :-1])[0][0].log_softmax(-1)
        expected = float(-logs.gather(1, ids[1:, None]).mean().detach())
        model.train()
        score = evaluate(model, Chunks(ids, 1, 7, shuffle=False))
        assert score.tokens == 49
        assert score.nats == pytest.approx(expected, abs=1e-12)
        assert model.training

    def test_sequences_are_weighed_by_their_symbols(self) -> None:
        model = make_model()
        texts = [torch.randint(V, (n,)) for n in (2, 9, 4, 5)]
        logs = [model(x[None, :-1])[0][0].log_softmax(-1).gather(1, x[1:, None]).flatten() for x in texts]
        expected = float(-torch.cat(logs).mean().detach())
        score = evaluate(model, Sequences(texts, 2, shuffle=False))
        assert score.tokens == 1 + 8 + 3 + 4
        assert score.nats == pytest.approx(expected, abs=1e-12)

    def test_perplexity_and_bits(self) -> None:
        score = Score(float(torch.tensor(8.0, dtype=torch.float64).log()), 10)
        assert score.perplexity == pytest.approx(8)
        assert score.bits == pytest.approx(3)
