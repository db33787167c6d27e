"""The echo state property: a linear network whose rate is known, networks that keep or lose it, and the bound."""

import pytest
import torch

from recurra import Fixed, Recurrent, find_cell, spectral_radius
from recurra.analysis.echo import echo_state
from recurra.errors import OptionError


def layer(rho: float, cell: object = "leaky(alpha=0.3)", size: int = 40, **options: object) -> Recurrent:
    return Recurrent(cell, 1, size, init=spectral_radius(rho), dtype=torch.float64, engine="eager", **options)


def silence(steps: int) -> torch.Tensor:
    return torch.zeros(steps, 1, dtype=torch.float64)


def test_the_rate_of_a_linear_network_is_its_spectral_radius() -> None:
    echo = echo_state(layer(0.8, "elman(activation=linear)"), silence(80))
    assert echo.rate == pytest.approx(0.8, rel=0.03)
    assert echo.radius == pytest.approx(0.8, abs=1e-9)
    assert echo.bound is None
    assert echo.holds


def test_it_fails_where_the_network_has_a_life_of_its_own() -> None:
    echo = echo_state(layer(3.0), silence(300))
    assert not echo.holds
    assert echo.rate > 0.97
    assert "do not come together" in str(echo)


def test_a_strong_input_makes_it_hold_again() -> None:
    """Saturated units forget: the property is one of the network with its input, which the radius alone does not tell."""
    made = layer(1.5)
    with torch.no_grad():
        made.stack[0][0].W.uniform_(-5, 5)
    x = 3 * torch.randn(300, 1, dtype=torch.float64)
    assert not echo_state(made, silence(300)).holds
    echo = echo_state(made, x)
    assert echo.holds
    assert echo.radius > 1


@pytest.mark.parametrize("alpha", [0.0, 0.5, [0.2, 0.9]])
def test_below_the_bound_no_step_stretches_a_distance(alpha: float | list[float]) -> None:
    made = layer(0.4, find_cell("leaky")(alpha=Fixed(alpha)))
    echo = echo_state(made, torch.randn(60, 1, dtype=torch.float64))
    (one,) = made.stack[0]
    keep = one.unit_values()["alpha"]
    assert echo.bound == pytest.approx(
        float(keep.max() + torch.linalg.svdvals((1 - keep)[:, None] * one.U.detach()).max())
    )
    distances = torch.cat([torch.ones(1, dtype=torch.float64), echo.distances])
    assert bool((distances[1:16] <= echo.bound * distances[:15]).all())
    assert ("every input" in str(echo)) == (echo.bound < 1)


def test_layers_that_are_stacked() -> None:
    echo = echo_state(layer(0.7, layers=2), torch.randn(200, 1, dtype=torch.float64))
    assert echo.holds
    assert echo.distances.shape == (200,)


def test_one_step_is_too_few() -> None:
    with pytest.raises(OptionError, match="at least 2 steps"):
        echo_state(layer(0.7), silence(1))
