"""Forecasters: gaps in what they read, the change from the last value, and free runs that depend on nothing beside them."""

import math

import pytest
import torch

from recurra import Recurrent
from recurra.errors import OptionError
from recurra.models.autoregression import Autoregression, LinearPast
from recurra.models.forecast import Forecaster
from recurra.models.heads import HEADS


def made(head: str = "gaussian", *, gaps: bool = False, **how: object) -> Forecaster:
    torch.manual_seed(0)
    return Forecaster(Recurrent("gru", 2 * (1 + gaps), 8), 2, head=head, gaps=gaps, **how).double().eval()


@pytest.mark.parametrize("head", HEADS)
def test_a_free_run_feeds_back_what_it_drew(head: str) -> None:
    model = made(head)
    known = torch.rand(3, 10, 2, dtype=torch.float64).round()
    noise = torch.rand(4, 5, 2, dtype=torch.float64)
    paths = model.run_free(known, noise)
    assert paths.shape == (3, 4, 5, 2)
    b, s = 1, 2
    read = torch.cat([known[b], paths[b, s, :-1]])[None]
    with torch.no_grad():
        predicted, _ = model(read)
        again = model.head.draw(predicted[0, 9:], noise[s])
    torch.testing.assert_close(again, paths[b, s])


def test_a_forecast_does_not_depend_on_those_beside_it() -> None:
    model = made("mixture")
    known, noise = torch.randn(6, 10, 2, dtype=torch.float64), torch.rand(5, 4, 2, dtype=torch.float64)
    together = model.run_free(known, noise)
    order = torch.tensor([4, 0, 5])
    torch.testing.assert_close(model.run_free(known[order], noise), together[order])


def test_the_change_from_the_last_value() -> None:
    plain, moved = made(), made(change=True)
    x = torch.randn(2, 6, 2, dtype=torch.float64)
    difference = (moved(x)[0] - plain(x)[0]).view(2, 6, 2, 2)
    torch.testing.assert_close(difference[..., 0], x)  # the means
    assert not bool(difference[..., 1].any())  # not the scales


def test_a_missing_value_is_read_as_zero_and_the_network_can_be_told() -> None:
    x = torch.randn(2, 6, 2, dtype=torch.float64)
    gap = x.clone()
    gap[0, 2, 1] = math.nan
    zero = x.clone()
    zero[0, 2, 1] = 0
    plain, told = made(change=True), made(change=True, gaps=True)
    torch.testing.assert_close(plain(gap)[0], plain(zero)[0])
    assert told.recurrent.input_size == 4
    assert not torch.allclose(told(gap)[0], told(zero)[0])
    torch.testing.assert_close(told(gap)[0][1], told(zero)[0][1])


def test_the_loss_is_weighed() -> None:
    model = made()
    x, y = torch.randn(2, 3, 6, 2, dtype=torch.float64)
    weights = torch.rand(3, 6, dtype=torch.float64)
    predicted, _ = model(x)
    expected = sum(weights[b, t] * model.head.losses(predicted[b, t], y[b, t]) for b in range(3) for t in range(6))
    torch.testing.assert_close(model.loss(predicted, y, weights), expected)


def test_a_way_past_the_recurrent_layers() -> None:
    model, x = made("bernoulli", skip=True), torch.rand(2, 6, 2, dtype=torch.float64).round()
    plain = made("bernoulli")
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model(x)[0], plain(x)[0])  # it begins as nothing
    with torch.no_grad():
        model.skip.weight.normal_()
    torch.testing.assert_close(model(x)[0], plain(x)[0] + x @ model.skip.weight.T)


def test_layers_that_read_another_number_of_channels_are_refused() -> None:
    with pytest.raises(OptionError, match="layers read 2 numbers; 2 channels and which of them are missing are 4"):
        Forecaster(Recurrent("gru", 2, 8), 2, gaps=True)


def test_outside_of_what_is_known_the_baseline_is_alone() -> None:
    series = torch.sin(torch.arange(100.0))[:, None].double()
    fitted = Autoregression.repeat(series)
    model = Forecaster(Recurrent("gru", 2, 8), 1, baseline=LinearPast(fitted.lags, 1)).eval()
    model.fill(fitted, series)
    torch.nn.init.normal_(model.output.weight, generator=torch.Generator().manual_seed(0))
    inputs = torch.tensor([0.5, 0.9, 1.5, -3.0, 0.1])[None, :, None]
    with torch.no_grad():
        apart = (model.head.location(model(inputs)[0]) - inputs)[0, :, 0]
    # what the network adds is taken off again, to rounding
    assert (apart.abs() < 1e-6).tolist() == [False, False, True, True, False]
