"""Heads: their losses are those of known distributions, their draws are distributed as they say, gaps cost nothing."""

import itertools
import math

import pytest
import torch
from torch import Tensor, distributions
from torch.nn.functional import softplus

from recurra.errors import OptionError
from recurra.models.heads import HEADS, LEVELS, SMALLEST, Chain, Quantiles, make_head

NUMBERS = ("gaussian", "mixture", "quantiles")


def said_by(name: str, channels: int = 2, rows: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random outputs for a head, and targets for it."""
    random = torch.Generator().manual_seed(seed)
    head = make_head(name, channels)
    said = torch.randn(rows, channels * head.numbers, generator=random, dtype=torch.float64)
    targets = torch.randn(rows, channels, generator=random, dtype=torch.float64)
    return said, (targets > 0).double() if head.binary else targets


def test_gaussian_is_the_normal_density() -> None:
    said, targets = said_by("gaussian")
    mean, scale = said.view(7, 2, 2).unbind(-1)
    known = distributions.Normal(mean, softplus(scale) + SMALLEST)
    torch.testing.assert_close(make_head("gaussian", 2).losses(said, targets), -known.log_prob(targets).sum(-1))


def test_mixture_is_the_density_of_a_mixture() -> None:
    said, targets = said_by("mixture")
    logits, mean, scale = said.view(7, 2, 3, 5).unbind(-2)
    apart = torch.linspace(-1, 1, 5, dtype=torch.float64)
    parts = distributions.Normal(mean + apart, softplus(scale) + SMALLEST)
    known = distributions.MixtureSameFamily(distributions.Categorical(logits=logits), parts)
    torch.testing.assert_close(make_head("mixture", 2).losses(said, targets), -known.log_prob(targets).sum(-1))


def test_quantiles_never_cross_and_cost_the_pinball_loss() -> None:
    said, targets = said_by("quantiles")
    values = Quantiles(2).values(said)
    assert bool((values.diff(dim=-1) > 0).all())
    expected = 0.0
    for level, value in zip(LEVELS, values.unbind(-1), strict=True):
        over = targets - value
        expected = expected + 2 * torch.where(over > 0, level * over, (level - 1) * over) / len(LEVELS)
    torch.testing.assert_close(Quantiles(2).losses(said, targets), expected.sum(-1))


def test_bernoulli_is_the_probability_of_each_channel() -> None:
    said, targets = said_by("bernoulli")
    known = distributions.Bernoulli(logits=said).log_prob(targets).sum(-1)
    torch.testing.assert_close(make_head("bernoulli", 2).losses(said, targets), -known)


def test_a_chain_is_a_distribution_of_whole_steps() -> None:
    """The probabilities of all 2⁴ steps sum to 1, although no channel is independent of another; and draws follow them."""
    torch.manual_seed(0)
    head = Chain(4).double()
    torch.nn.init.normal_(head.links)
    said = torch.randn(4, dtype=torch.float64)
    every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)), dtype=torch.float64)
    chances = (-head.losses(said.expand(16, 4), every)).exp().detach()
    assert float(chances.sum()) == pytest.approx(1)
    with torch.no_grad():
        drawn = head.draw(said.expand(20000, 4), torch.rand(20000, 4, dtype=torch.float64))
    shares = (drawn[:, None] == every).all(-1).double().mean(0)
    assert float((shares - chances).abs().max()) < 0.015
    plain = make_head("bernoulli", 4).double()
    alone = (-plain.losses(said.expand(16, 4), every)).exp()
    assert float((alone - chances).abs().max()) > 0.05


@pytest.mark.parametrize("name", NUMBERS)
def test_draws_are_distributed_as_the_loss_says(name: str) -> None:
    """Draws at the middles of 4000 equal shares: what costs least to say in hindsight is what was said."""
    head = make_head(name, 1)
    said, _ = said_by(name, channels=1, rows=1, seed=3)
    noise = (torch.arange(4000, dtype=torch.float64)[:, None] + 0.5) / 4000
    drawn = head.draw(said.expand(4000, -1), noise)
    if name != "mixture":  # whose components are drawn in their order, not in that of the values
        assert bool((drawn.diff(dim=0) >= 0).all())
    at_best = float(head.losses(said.expand(4000, -1), drawn).mean())
    for k, step in itertools.product(range(said.shape[1]), (-0.3, 0.3)):
        other = said.clone()
        other[0, k] += step
        assert float(head.losses(other.expand(4000, -1), drawn).mean()) > at_best


@pytest.mark.parametrize("name", HEADS)
def test_what_is_missing_costs_nothing(name: str) -> None:
    head = make_head(name, 2).double()
    said, targets = said_by(name)
    targets[0] = math.nan
    targets[1, 0] = math.nan
    said.requires_grad_()
    losses = head.losses(said, targets)
    losses.sum().backward()
    assert losses[0].item() == 0
    assert losses[1].item() != 0
    assert bool(said.grad.isfinite().all())
    assert not bool(said.grad[0].any())
    half = head.numbers
    assert not bool(said.grad[1, :half].any())
    assert bool(said.grad[1, half:].any())


@pytest.mark.parametrize("name", NUMBERS)
def test_around_the_last_value(name: str) -> None:
    head = make_head(name, 2)
    said, last = said_by(name)
    noise = torch.rand(7, 2, dtype=torch.float64)
    torch.testing.assert_close(head.draw(head.around(said, last), noise), head.draw(said, noise) + last)


def test_what_does_not_exist() -> None:
    with pytest.raises(OptionError, match="Did you mean 'gaussian'"):
        make_head("gausian", 1)
    with pytest.raises(OptionError, match="at least one component"):
        make_head("mixture", 1, components=0)
    with pytest.raises(OptionError, match="predicts no change"):
        make_head("bernoulli", 1).around(torch.zeros(1), torch.zeros(1))
