"""Baselines of forecasts: coefficients found again, repetition, seasons, and gaps."""

import math

import pytest
import torch

from recurra.data.series_tasks import seasons
from recurra.models.autoregression import (
    SMOOTHED,
    Autoregression,
    _smoothing_weights,
    baselines_of,
    best_autoregression,
    find_season,
    kind_of,
)


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


def test_a_mean_predicts_the_mean() -> None:
    series = simulated(300)
    models = [Autoregression.fit(series, 2), Autoregression.fit(series, 3, change=1), Autoregression.repeat(series)]
    mean = Autoregression.mean(models, series)
    assert mean.lags == (1, 2, 3, 4)
    errors = torch.stack([each.errors(series)[-200:] for each in models])
    torch.testing.assert_close(mean.errors(series)[-200:], errors.mean(0))


def test_a_penalty_makes_coefficients_small_whatever_the_unit() -> None:
    series = simulated(60)
    plain, small = Autoregression.fit(series, 12), Autoregression.fit(series, 12, ridge=3.0)
    assert small.matrices.square().sum() < 0.5 * plain.matrices.square().sum()
    other = Autoregression.fit(1000 * series + 5, 12, ridge=3.0)
    torch.testing.assert_close(other.matrices, small.matrices)
    torch.testing.assert_close(other.scale, 1000 * small.scale)
    torch.testing.assert_close(
        Autoregression.fit(series, 12, ridge=1e-12).matrices, Autoregression.fit(series, 12, ridge=0.0).matrices
    )


def test_channels_that_are_nearly_alike_make_no_large_coefficients() -> None:
    """Without a penalty, they cancel each other in their thousands, and drawn trajectories leave every range."""
    one = simulated(400)
    alike = torch.cat([one, one + 1e-7 * torch.randn(len(one), 1, generator=torch.Generator().manual_seed(0))], dim=1)
    assert float(Autoregression.fit(alike, 3, ridge=0.0).matrices.abs().max()) > 1e3
    assert float(Autoregression.fit(alike, 3).matrices.abs().max()) < 10


@pytest.mark.parametrize("which", [0, 22, 57, len(SMOOTHED) - 1])
def test_smoothing_is_the_recursion_of_holt_and_winters(which: int) -> None:
    season, values = 4, torch.randn(18, dtype=torch.float64, generator=torch.Generator().manual_seed(which))
    fast, slopes, seasonal, damping = SMOOTHED[which]
    slope = damping * (values[season : 2 * season].mean() - values[:season].mean()) / season
    level = values[:season].mean() + 1.5 * slope
    turn = list(values[:season] - values[:season].mean() - slope * torch.tensor([-1.5, -0.5, 0.5, 1.5]))
    for t in range(season, len(values)):
        before, was = level, slope
        level = fast * (values[t] - turn[t % season]) + (1 - fast) * (before + damping * was)
        slope = damping * was + slopes * (values[t] - before - damping * was - turn[t % season])
        turn[t % season] += seasonal * (values[t] - before - damping * was - turn[t % season])
    predicted = level + damping * slope + turn[len(values) % season]
    torch.testing.assert_close(_smoothing_weights(season, len(values))[which] @ values.flip(0), predicted)


def test_smoothing_follows_a_season_and_a_slope() -> None:
    t = torch.arange(120, dtype=torch.float64)
    series = (0.1 * t + torch.tensor([0.0, 3.0, 1.0, -2.0], dtype=torch.float64).repeat(30))[:, None]
    model = Autoregression.smooth(series[:100], 4, order=24, horizon=8)
    middle = torch.full((1, 20, 1), 0.5, dtype=torch.float64)
    torch.testing.assert_close(model.run_free(series[None, :100], middle)[0, 0], series[100:], atol=0.2, rtol=0)


def test_baselines_have_kinds() -> None:
    found = baselines_of(seasons(600), seasons(700)[600:], 24, most=84, horizon=24)
    assert [kind_of(name) for name in found] == [
        "naive",
        "seasonal naive",
        "autoregression",
        "autoregression of changes",
        "autoregression of seasonal changes",
        "ridge autoregression",
        "exponential smoothing",
    ]
    assert all(each.order <= 84 for each in found.values())
