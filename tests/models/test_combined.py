"""Shares of a baseline beside a network: mixed in probability, chosen by what they gain."""

import pytest
import torch

from recurra.models.combined import SHARES, WITH_ALL, best_share, choose_safely, choose_share, gains, mixed


def test_the_share_is_the_best_one() -> None:
    first, second = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.1, 0.9]).log()
    assert best_share(first, second) == pytest.approx(0.5)
    assert best_share(first, first - 1) == 0
    torch.testing.assert_close(mixed(first, second, 0.25).exp(), torch.tensor([0.7, 0.3]))
    assert mixed(first, second, torch.tensor(0.0)) is first


def test_a_gain_within_the_noise_is_left() -> None:
    torch.manual_seed(0)
    first = torch.full((400,), 0.5).log()
    better, alike = torch.full((400,), 0.6).log(), torch.rand(400).add(0.04).log()

    def choose(second: torch.Tensor, how: str) -> float:
        each = gains(first, second)
        return choose_share(each.sum(1), each.square().sum(1), 400, how)

    assert choose(better, "auto") == choose(better, "baseline") == SHARES[-1]
    assert choose(alike, "auto") == 0
    one = gains(first[:1], better[:1])
    assert choose_share(one.sum(1), one.square().sum(1), 1, "auto") == 0  # nothing is sure of one example
    assert choose(alike, "baseline") == best_share(first, alike) > 0


@pytest.mark.parametrize(
    ("network", "noise", "together", "chosen"),
    [
        (0.0, 0.02, 0.3, (0.01, 0.99)),  # alone as good as the baseline, and both make up for each other
        (-0.04, 0.3, 0.0, (1, 1)),  # a mixture is better by chance
        (0.5, 0.02, 0.0, (0, 0)),  # the network is surely better, and nothing is gained by mixing
    ],
)
def test_the_network_has_a_part_only_where_that_is_surely_better(
    network: float, noise: float, together: float, chosen: tuple[float, float]
) -> None:
    """Log-probabilities of 400 targets that differ from the baseline's by a mean, by noise, and by what a mixture evens out."""
    torch.manual_seed(0)
    second = torch.full((400,), 0.3).log() - together * torch.randn(400)
    first = torch.full((400,), 0.3).log() + network + noise * torch.randn(400) + together * torch.randn(400)
    each = gains(first, second, shares=WITH_ALL)
    each = torch.stack([each, each - each[-1]])
    low, high = chosen
    assert low <= choose_safely(each.sum(-1), each.square().sum(-1), 400, "auto") <= high
    most = WITH_ALL[int(each[0].sum(-1).argmax())]
    assert choose_safely(each.sum(-1), each.square().sum(-1), 400, "baseline") == most
    assert 0 <= most < 1
