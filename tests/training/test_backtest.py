"""Backtests: where origins lie, what is known at them, and scores that are those of their definitions."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recurra.errors import DataError
from recurra.models.autoregression import Autoregression
from recurra.training import backtest
from recurra.training.backtest import draw_noise, roll, score_paths, standard_error


def rolling(T: int = 100, begin: int = 80, **how: int) -> backtest.Rolling:
    values = torch.arange(T, dtype=torch.float64)[:, None]
    return roll(values, begin, **{"horizon": 5, "window": 10, "origins": 4, "samples": 3, "seed": 0} | how)


class TestOrigins:
    def test_they_are_spread_from_the_last_known_row_to_the_last_with_room(self) -> None:
        made = rolling()
        assert made.origins.tolist() == [79, 84, 89, 94]
        assert made.true[0, :, 0].tolist() == [80, 81, 82, 83, 84]
        assert made.true[-1, -1].item() == 99
        assert rolling(origins=500).origins.tolist() == list(range(79, 95))
        assert rolling(horizon=20, origins=3).origins.tolist() == [79]

    def test_a_series_shorter_than_the_horizon(self) -> None:
        with pytest.raises(DataError, match="20 steps are left to judge by, fewer than the horizon of 21"):
            rolling(horizon=21)

    def test_nothing_after_an_origin_is_known(self) -> None:
        seen: list[Tensor] = []

        class Watch:
            def run_free(self, known: Tensor, noise: Tensor) -> Tensor:
                seen.append(known)
                return known.new_zeros(len(known), *noise.shape)

        made = rolling()
        assert made.forecast(Watch()).shape == (4, 3, 5, 1)
        assert torch.cat(seen)[:, -1, 0].tolist() == made.origins.tolist()
        assert torch.cat(seen)[:, 0, 0].tolist() == [70, 75, 80, 85]

    def test_how_many_are_forecast_at_once_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = rolling(origins=16)
        model = Autoregression.repeat(made.values, 3)
        together = made.forecast(model)
        monkeypatch.setattr(backtest, "AT_ONCE", 3)
        torch.testing.assert_close(made.forecast(model), together)


class TestScores:
    def test_by_their_definitions(self) -> None:
        torch.manual_seed(0)
        paths, true = torch.randn(3, 21, 4, 2, dtype=torch.float64), torch.randn(3, 4, 2, dtype=torch.float64)
        true[1, 2, 0] = math.nan
        absolute, square, crps, inside = [], [], [], []
        for o in range(3):
            for k in range(4):
                for c in range(2):
                    x, y = paths[o, :, k, c], true[o, k, c]
                    if y.isnan():
                        continue
                    absolute.append(abs(float(x.median() - y)))
                    square.append(float(x.mean() - y) ** 2)
                    pairs = [float((x[i] - x[j]).abs()) for i in range(21) for j in range(21) if i != j]
                    crps.append(float((x - y).abs().mean()) - sum(pairs) / len(pairs) / 2)
                    low, high = x.quantile(0.1), x.quantile(0.9)
                    inside.append(float(low <= y <= high))
        scores = score_paths(paths, true, 0.8)
        assert scores == pytest.approx(
            {
                "mae": sum(absolute) / 23,
                "rmse": math.sqrt(sum(square) / 23),
                "crps": sum(crps) / 23,
                "80% covered": sum(inside) / 23,
            }
        )

    def test_the_true_distribution_has_its_known_crps_and_coverage(self) -> None:
        """Of a standard normal, E CRPS is 1/√π."""
        paths = torch.special.ndtri(draw_noise(400, 1000, 1, 0))[None]
        true = torch.special.ndtri(draw_noise(1, 1000, 1, 1))
        scores = score_paths(paths, true)
        assert scores["crps"] == pytest.approx(1 / math.sqrt(math.pi), rel=0.05)
        assert scores["90% covered"] == pytest.approx(0.9, abs=0.03)
        for factor in (0.5, 2.0):  # too sure, and too unsure
            assert score_paths(factor * paths, true)["crps"] > scores["crps"]


def test_noise_depends_on_its_seed_alone_and_is_never_0_or_1() -> None:
    noise = draw_noise(50, 20, 3, 7)
    assert torch.equal(noise, draw_noise(50, 20, 3, 7))
    assert not torch.equal(noise, draw_noise(50, 20, 3, 8))
    assert bool(torch.special.ndtri(noise).isfinite().all())


def test_errors_are_of_the_median_where_there_is_truth() -> None:
    made = rolling()
    values = made.values.clone()
    values[made.origins[0] + 1 : made.origins[0] + 6] = torch.nan
    made = replace(made, values=values)

    class Off:
        def run_free(self, known: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
            """1, 2 and 9 too high from each origin; not a number from the last."""
            last = int(made.origins[-1])
            paths = torch.stack([made.true + away for away in (1.0, 9.0, 2.0)], 1)
            paths[made.origins == last] = torch.nan
            return paths

    assert made.errors(Off()).tolist() == pytest.approx([2, 2, math.inf])


def test_forecasts_that_overlap_count_less() -> None:
    apart, overlapping = rolling(T=120, origins=4), rolling(T=90, origins=4)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert standard_error(values, [apart]) == pytest.approx(float(values.std()) / math.sqrt(3))
    assert standard_error(values, [overlapping]) == math.inf  # origins 79 to 84: twice 5 steps, too few
    assert standard_error(values, [overlapping] * 2) == pytest.approx(float(values.std()) / math.sqrt(3))
    assert standard_error(torch.ones(1), [rolling(T=85)]) == math.inf
