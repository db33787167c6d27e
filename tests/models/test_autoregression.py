"""Baselines of forecasts: coefficients found again, repetition, seasons, and gaps."""

import math

import pytest
import torch

from recurra.data.series_tasks import seasons
from recurra.models.autoregression import Autoregression, best_autoregression, find_season


def simulated(length: int, seed: int = 0) -> torch.Tensor:
    """y_t = 0.5 + 1.2 y_{t−1} − 0.5 y_{t−2} + 0.1 e_t."""
    random = torch.Generator().manual_seed(seed)
    noise = 0.1 * torch.randn(length, generator=random, dtype=torch.float64)
    values = [torch.zeros(1, dtype=torch.float64)] * 2
    for shock in noise:
        values.append(0.5 + 1.2 * values[-1] - 0.5 * values[-2] + shock)
    return torch.stack(values[2:])


def test_coefficients_are_found_again_with_gaps_too() -> None:
    series = simulated(20000)
    model = Autoregression.fit(series, 2)
    assert model.matrices.flatten().tolist() == pytest.approx([1.2, -0.5], abs=0.02)
    assert model.constant.item() == pytest.approx(0.5, abs=0.03)
    assert model.scale.item() == pytest.approx(0.1, abs=0.003)
    holes = series.clone()
    holes[::50] = math.nan
    assert Autoregression.fit(holes, 2).matrices.flatten().tolist() == pytest.approx([1.2, -0.5], abs=0.05)


def test_two_channels_see_each_other() -> None:
    x = torch.randn(500, 1, dtype=torch.float64)
    series = torch.cat([x, torch.zeros_like(x)], dim=1)
    series[1:, 1] = 2 * x[:-1, 0]
    model = Autoregression.fit(series, 1)
    assert model.matrices[0, 1].tolist() == pytest.approx([2, 0], abs=1e-6)
    said = model.run_free(series[None], torch.full((1, 1, 2), 0.5, dtype=torch.float64))
    assert said[0, 0, 0, 1].item() == pytest.approx(2 * x[-1, 0].item(), abs=1e-6)


def test_repetition() -> None:
    series = torch.arange(12, dtype=torch.float64)[:, None]
    middle = torch.full((1, 5, 1), 0.5, dtype=torch.float64)
    assert Autoregression.repeat(series).run_free(series[None], middle).flatten().tolist() == [11] * 5
    seasonal = Autoregression.repeat(series, 3)
    assert seasonal.run_free(series[None], middle).flatten().tolist() == [9, 10, 11, 9, 10]
    assert seasonal.scale.item() == 3  # each step is 3 above that of 3 steps before


def test_errors_grow_as_those_of_a_random_walk() -> None:
    series = torch.randn(2000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(0)
    noise = torch.rand(4000, 16, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    paths = Autoregression.repeat(series).run_free(series[None], noise)[0, :, :, 0]
    assert paths[:, 0].std().item() == pytest.approx(1, rel=0.06)
    assert paths[:, 15].std().item() == pytest.approx(4, rel=0.06)


def test_the_order_is_chosen_by_what_follows() -> None:
    series = simulated(3000)
    assert best_autoregression(series[:2000], series[2000:], None, most=64).order >= 2
    daily = seasons(2400)
    assert best_autoregression(daily[:2000], daily[2000:], 24, most=168).order >= 24
    assert best_autoregression(daily[:2000], daily[2000:], 24, most=4).order <= 4
    assert best_autoregression(daily[:5], daily[5:8], None, most=4).order == 1


def test_the_season_is_found_or_there_is_none() -> None:
    assert find_season(seasons(1000)) == 24
    t = torch.arange(300, dtype=torch.float64)[:, None]
    assert find_season(torch.sin(2 * torch.pi * t / 12) + 0.1 * t) == 12
    holes = torch.sin(2 * torch.pi * t / 12)
    holes[::7] = math.nan
    assert find_season(holes) == 12
    assert find_season(torch.randn(300, 1, generator=torch.Generator().manual_seed(0))) is None
    assert find_season(t[:6]) is None
