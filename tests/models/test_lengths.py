"""The length first: P(τ) sums to one, so does P(x | τ), and what is drawn follows them. A stop probability at each step."""

from itertools import product

import pytest
import torch
from torch.nn.functional import linear

from recurra.errors import OptionError
from recurra.models.language import LanguageModel
from recurra.models.lengths import LengthLanguageModel, sequence_logs
from recurra.models.sampling import sample
from tests.helpers import make_language_model

START, END = 3, 4


def make(longest: int = 4, cell: str = "gru") -> LengthLanguageModel:
    torch.manual_seed(0)
    model = LengthLanguageModel(make_language_model(5, cell, 6), longest, never=(START, END)).double()
    with torch.no_grad():
        model.length.normal_()
    return model.eval()


def probability(model: LengthLanguageModel, tokens: tuple[int, ...]) -> float:
    line = torch.tensor([[START, *tokens, END]])
    logs = sequence_logs(model, line[:, :-1], line[:, 1:], torch.tensor([len(tokens) + 1]))
    return float(logs.sum().exp())


@torch.no_grad()
def test_all_sequences_of_all_lengths_have_probability_one_together() -> None:
    model = make(longest=3)
    assert float(model.length_probabilities().sum()) == pytest.approx(1, abs=1e-12)
    of_length = [sum(probability(model, each) for each in product(range(3), repeat=tau)) for tau in range(4)]
    assert of_length == pytest.approx(model.length_probabilities().tolist(), abs=1e-12)
    assert float(model.length_logs(torch.tensor([4]))) == -torch.inf


@torch.no_grad()
def test_drawn_lengths_follow_the_learned_ones() -> None:
    model = make(longest=6)
    drawn = model.draw_lengths(20_000, generator=torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=7) / 20_000
    torch.testing.assert_close(shares.double(), model.length_probabilities(), atol=0.012, rtol=0)
    some = model.draw_lengths(20_000, 2, 4, torch.Generator().manual_seed(0))
    wanted = model.length_probabilities()[2:5] / model.length_probabilities()[2:5].sum()
    torch.testing.assert_close((torch.bincount(some)[2:] / 20_000).double(), wanted, atol=0.012, rtol=0)
    with pytest.raises(OptionError, match="0 to 6"):
        model.draw_lengths(1, 7)


@torch.no_grad()
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_what_is_left_is_told_at_every_step_and_is_part_of_the_state(cell: str) -> None:
    model = make(longest=6, cell=cell)
    tokens, tau = torch.tensor([[START, 0, 2, 1], [START, 1, 1, 0]]), torch.tensor([6, 3])
    language = model.language
    left = torch.tensor([[6, 5, 4, 3], [3, 2, 1, 0]])
    expected = language.output(language.recurrent(language.embedding(tokens) + model.left(left)).outputs)
    found, state = model.given(tau)(tokens)
    torch.testing.assert_close(found[..., :3], expected[..., :3])
    assert bool((found[..., 3:] == -torch.inf).all())
    told = model.given(tau)
    first, middle = told(tokens[:, :1])
    second, last = told(tokens[:, 1:], middle)
    torch.testing.assert_close(torch.cat([first, second], dim=1), found)
    torch.testing.assert_close(last, state)


@torch.no_grad()
def test_a_stop_probability_is_emitted_at_each_step() -> None:
    torch.manual_seed(0)
    model = LanguageModel(5, make_language_model(5, "gru", 6).recurrent, stop=END).double()
    tokens = torch.randint(4, (2, 7))
    logs = model(tokens)[0]
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(2, 7).double())
    free = linear(model.recurrent(model.embedding(tokens)).outputs, model.output.weight, model.output.bias)
    stop = torch.sigmoid(free[..., END])
    torch.testing.assert_close(logs[..., END].exp(), stop)
    torch.testing.assert_close(logs[..., :END].exp(), (1 - stop)[..., None] * free[..., :END].softmax(-1))
    with pytest.raises(OptionError, match="one of the 5 tokens"):
        LanguageModel(5, model.recurrent, stop=5)


@torch.no_grad()
def test_sequences_end_as_often_as_the_stop_probability_says() -> None:
    model = LanguageModel(5, make_language_model(5, "gru", 6).recurrent, stop=END)
    model.output.weight.zero_()
    model.output.bias.zero_()
    model.output.bias[END] = -1.0  # σ(−1) at each step: lengths are geometric
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([len(list(sample(model, [START], 200, end=END, generator=draw))) for _ in range(400)])
    chance = float(torch.sigmoid(torch.tensor(-1.0)))
    assert float(lengths.double().mean()) == pytest.approx((1 - chance) / chance, rel=0.15)
