"""Symbols drawn from a model: the distribution that is drawn from, and the ways a text ends."""

import inspect
from typing import Any

import pytest
import torch

import recurra as rc
from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.models.sampling import Choice, _follow, sample
from tests.helpers import make_language_model

V = 6
LOGITS = torch.tensor([0.5, 0.3, 0.1, 0.06, 0.04]).log()


@pytest.fixture
def model() -> LanguageModel:
    torch.manual_seed(2)
    made = make_language_model(V, "gru", 8, engine="eager", dropout=0.5)
    with torch.no_grad():
        made.output.weight *= 4
    return made


def draw(model: LanguageModel, length: int = 40, seed: int = 0, **options: Any) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return list(sample(model, [1, 2], length, generator=generator, **options))


class TestChoice:
    @pytest.mark.parametrize(
        "choice", [Choice(greedy=True), Choice(top_k=2), Choice(top_p=0.6), Choice(temperature=0.5)]
    )
    def test_rows_are_apart(self, choice: Choice) -> None:
        logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
        expected = torch.stack([choice.probabilities(row) for row in logits])
        torch.testing.assert_close(choice.probabilities(logits), expected)

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            (Choice(), [0.5, 0.3, 0.1, 0.06, 0.04]),
            (Choice(greedy=True), [1, 0, 0, 0, 0]),
            (Choice(top_k=1), [1, 0, 0, 0, 0]),
            (Choice(top_k=2), [0.625, 0.375, 0, 0, 0]),
            (Choice(top_k=5), [0.5, 0.3, 0.1, 0.06, 0.04]),
            (Choice(top_k=50), [0.5, 0.3, 0.1, 0.06, 0.04]),
            (Choice(top_p=0.4), [1, 0, 0, 0, 0]),
            (Choice(top_p=0.6), [0.625, 0.375, 0, 0, 0]),
            (Choice(top_p=0.85), [5 / 9, 3 / 9, 1 / 9, 0, 0]),
            (Choice(top_p=1.0), [0.5, 0.3, 0.1, 0.06, 0.04]),
            (Choice(top_k=2, top_p=0.5), [1, 0, 0, 0, 0]),
            (Choice(temperature=0.5), [0.25 / 0.3552, 0.09 / 0.3552, 0.01 / 0.3552, 0.0036 / 0.3552, 0.0016 / 0.3552]),
        ],
        ids=str,
    )
    def test_the_distribution(self, choice: Choice, expected: list[float]) -> None:
        order = torch.tensor([3, 0, 4, 1, 2])  # the most probable one need not come first
        found = choice.probabilities(LOGITS[order])
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32)[order], rtol=0, atol=1e-6)
        assert float(found.sum()) == pytest.approx(1, abs=1e-6)

    def test_heat_flattens_and_cold_sharpens(self) -> None:
        assert Choice(temperature=1e4).probabilities(LOGITS).tolist() == pytest.approx([0.2] * 5, abs=1e-3)
        assert Choice(temperature=1e-2).probabilities(LOGITS).tolist() == pytest.approx([1, 0, 0, 0, 0], abs=1e-6)

    @pytest.mark.parametrize(
        "wrong", [{"temperature": 0.0}, {"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.1}], ids=str
    )
    def test_what_makes_no_sense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(OptionError, match=next(iter(wrong))):
            Choice(**wrong)


@pytest.mark.parametrize(
    ("cell", "layers", "options"),
    [("lstm", 1, {}), ("gru", 2, {"tied": True}), ("skip(d=2)", 1, {"stop": 3}), ("lstm", 1, {"deep_output": 1})],
    ids=str,
)
def test_a_stepper_draws_what_the_layers_do(cell: str, layers: int, options: dict[str, Any]) -> None:
    """To the bit: then the same seed draws the same tokens for good."""
    torch.manual_seed(0)
    made = rc.Recurrent(cell, 8, 8, layers=layers, dropout=0.2, learn_initial=True)
    model = LanguageModel(V, made, **options).eval()
    with torch.no_grad():
        _, first = model(torch.tensor([[1, 2]]))
        follow, state = _follow(model, first), first
        for token in [3, 0, 5, 5, 1] * 8:
            logits, state = model.step(torch.tensor([token]), state)
            assert torch.equal(follow(token), logits[0])
    assert isinstance(inspect.getclosurevars(follow).nonlocals["stepper"], rc.Stepper)


def test_greedy_follows_the_most_probable_symbol(model: LanguageModel) -> None:
    model.eval()
    text = [1, 2]
    for _ in range(12):
        text.append(int(model(torch.tensor([text]))[0][0, -1].argmax()))
    assert draw(model, 12, choice=Choice(greedy=True)) == text[2:]
    assert draw(model, 12, choice=Choice(top_k=1)) == text[2:]


def test_the_same_seed_gives_the_same_text(model: LanguageModel) -> None:
    first = draw(model)
    torch.rand(3)
    assert draw(model) == first
    assert draw(model, seed=1) != first


def test_symbols_come_as_often_as_they_are_probable(model: LanguageModel) -> None:
    model.eval()
    expected = model(torch.tensor([[1, 2]]))[0][0, -1].softmax(-1).detach()
    generator = torch.Generator().manual_seed(0)
    drawn = [next(sample(model, [1, 2], 1, generator=generator)) for _ in range(1500)]
    found = torch.bincount(torch.tensor(drawn), minlength=V) / 1500
    assert float((found - expected).abs().max()) < 0.05  # four standard deviations


class TestTheEnd:
    def test_by_length(self, model: LanguageModel) -> None:
        assert len(draw(model, 17)) == 17

    def test_by_a_symbol_that_is_not_given_back(self, model: LanguageModel) -> None:
        free = draw(model)
        end = free[9]
        assert draw(model, end=end) == free[: free.index(end)]

    def test_by_a_stop_before_each_symbol(self, model: LanguageModel) -> None:
        assert draw(model, stop_probability=1.0) == []
        lengths = torch.tensor([float(len(draw(model, 100, seed=k, stop_probability=0.25))) for k in range(300)])
        assert float(lengths.mean()) == pytest.approx(3, abs=0.8)  # (1 - p) / p, four standard deviations

    @pytest.mark.parametrize("choice", [Choice(), Choice(greedy=True), Choice(top_k=2), Choice(top_p=0.5)], ids=str)
    def test_exactly_a_length_never_draws_the_end(self, model: LanguageModel, choice: Choice) -> None:
        """Each symbol in turn is the end, so that one of them is the most probable."""
        ended = 0
        for end in range(V):
            for seed in range(5):
                ended += len(draw(model, 30, seed=seed, end=end, choice=choice)) < 30
                text = draw(model, 30, seed=seed, end=end, choice=choice, exactly=True)
                assert len(text) == 30
                assert end not in text
        assert ended >= 5

    def test_exactly_a_length_divides_the_rest_of_the_probability_alike(self, model: LanguageModel) -> None:
        model.eval()
        expected = model(torch.tensor([[1, 2]]))[0][0, -1].softmax(-1).detach()
        end = int(expected.argmax())
        expected[end] = 0
        expected /= expected.sum()
        generator = torch.Generator().manual_seed(0)
        drawn = [next(sample(model, [1, 2], 1, end=end, exactly=True, generator=generator)) for _ in range(1500)]
        found = torch.bincount(torch.tensor(drawn), minlength=V) / 1500
        assert float((found - expected).abs().max()) < 0.05  # four standard deviations

    def test_symbols_that_are_barred_are_never_drawn(self, model: LanguageModel) -> None:
        assert {1, 4} <= set(draw(model, 200))
        assert set(draw(model, 200, never=[1, 4])) == {0, 2, 3, 5}
        text = draw(model, 200, never=[1], end=4, exactly=True)
        assert len(text) == 200
        assert not {1, 4} & set(text)

    def test_exactly_without_an_end_changes_nothing(self, model: LanguageModel) -> None:
        assert draw(model, exactly=True) == draw(model)

    def test_nothing_to_start_from_is_refused(self, model: LanguageModel) -> None:
        with pytest.raises(OptionError, match="at least one token"):
            next(sample(model, [], 3))


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_in_its_mode(model: LanguageModel, training: bool) -> None:
    model.train(training)
    texts = sample(model, [1], 5)
    next(texts)
    texts.close()
    assert model.training == training
