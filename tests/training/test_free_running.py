"""Forecasts from many places: the same as one by one, and the measure written out."""

import pytest
import torch

from recurra.data.series_tasks import sines
from recurra.errors import DataError
from recurra.models.reservoir import EchoState
from recurra.training.free_running import reach_places


@pytest.fixture
def taught() -> tuple[EchoState, torch.Tensor]:
    series = torch.cat([sines(900, count=2), 3 + sines(900, seed=1, count=3)], dim=1)
    model = EchoState(0, 2, feedback=True, hidden_size=20, input_scale=0.1, engine="eager")
    model.standardise(series[:500])
    model.learn(series[:500], washout=100, penalty=1e-6)
    return model, series


def test_each_is_what_it_would_be_alone(taught: tuple[EchoState, torch.Tensor]) -> None:
    model, series = taught
    made = reach_places(model, series, 600, washout=150, horizon=7, starts=5).forecasts(model)
    places = [600 + (900 - 600 - 7) * k // 5 for k in range(5)]
    for k, place in enumerate(places):
        alone = model.run_free(7, *model.warm_up(series[None, 450 : place + 1]))
        torch.testing.assert_close(made.predicted[k], alone[0], rtol=0, atol=1e-9)
        assert torch.equal(made.true[k], series[place + 1 : place + 8])
        assert torch.equal(made.last[k], series[place])


def test_the_measure(taught: tuple[EchoState, torch.Tensor]) -> None:
    model, series = taught
    made = reach_places(model, series, 600, washout=150, horizon=7, starts=5).forecasts(model)
    errors = [
        (made.predicted[k, 6, c] - made.true[k, 6, c]) ** 2 / series[600:, c].var() for k in range(5) for c in range(2)
    ]
    assert made.nrmse(7) == pytest.approx(float((sum(errors) / 10) ** 0.5))
    again = ((made.last - made.true[:, 2]).square() / series[600:].var(0)).mean().sqrt()
    assert made.persistence(3) == pytest.approx(float(again))


def test_more_starts_than_places_and_nothing_before_them(taught: tuple[EchoState, torch.Tensor]) -> None:
    model, series = taught
    made = reach_places(model, series[:20], 0, washout=150, horizon=10, starts=50).forecasts(model)
    assert made.predicted.shape == (9, 10, 2)  # every place that has one value before it and 10 after


def test_no_room(taught: tuple[EchoState, torch.Tensor]) -> None:
    model, series = taught
    with pytest.raises(DataError, match="no room for forecasts of 50"):
        reach_places(model, series[:640], 600, washout=10, horizon=50, starts=3)
    with pytest.raises(DataError, match="at least two known values"):
        reach_places(model, series[:11], 0, washout=10, horizon=10, starts=3)


def test_one_that_runs_away_is_infinitely_wrong(taught: tuple[EchoState, torch.Tensor]) -> None:
    model, series = taught
    model.output.weight.mul_(1e6)
    made = reach_places(model, series, 600, washout=10, horizon=200, starts=2).forecasts(model)
    assert made.nrmse(200) > 1e6
