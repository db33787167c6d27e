"""Shares of a baseline beside a network: mixed in probability, chosen by what they gain."""

import pytest
import torch

from recurra.models.combined import SHARES, best_share, choose_share, gains, mixed


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
    assert choose(alike, "baseline") == best_share(first, alike) > 0
