"""Sums of ridge functions: the error falls with the width, for functions of one and of two variables."""

import pytest
import torch

from recurra.errors import OptionError
from recurra.lecture.activations import activations
from recurra.lecture.approximation import FUNCTIONS, approximate


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_error_falls_with_the_width(name: str) -> None:
    found = approximate(name, (1, 4, 16, 64))
    assert all(later < 0.95 * before for before, later in zip(found.typical, found.typical[1:], strict=False))
    if name != "step":  # not continuous: near its jump the largest error stays
        assert found.largest[-1] < 0.05 * found.largest[0]


@pytest.mark.parametrize("activation", ["tanh", "relu", "softplus"])
def test_other_activations_and_functions_of_ones_own(activation: str) -> None:
    found = approximate(lambda x: (x[:, 0] - x[:, 1]).square(), (2, 32), variables=2, activation=activation)
    assert found.typical[1] < 0.2 * found.typical[0]
    x = torch.rand(50, 2, dtype=torch.float64)
    torch.testing.assert_close(found(x), (x[:, 0] - x[:, 1]).square(), atol=4 * found.largest[1], rtol=0)


def test_a_sum_is_what_its_weights_say() -> None:
    found = approximate("sine", (3,))
    x = torch.tensor([[0.2], [0.7]], dtype=torch.float64)
    ridges = torch.sigmoid(x @ found.weights.T + found.biases)
    torch.testing.assert_close(found(x), ridges @ found.outer[0][:3] + found.outer[0][3])
    with pytest.raises(OptionError, match="positive"):
        approximate("sine", (0,))
    with pytest.raises(OptionError, match="Did you mean 'sine'"):
        approximate("sin")


def test_slopes_are_the_derivatives_of_the_values() -> None:
    found = activations()
    for name, values in found.values.items():
        rise = (values[2:] - values[:-2]) / (found.a[2:] - found.a[:-2])
        inside = (found.a[1:-1].abs() > 0.05) | (torch.tensor(name != "relu"))
        torch.testing.assert_close(rise[inside], found.slopes[name][1:-1][inside], atol=2e-4, rtol=0)
    assert float(found.slopes["sigmoid"].max()) == pytest.approx(0.25)
    assert float(found.slopes["tanh"].max()) == pytest.approx(1.0)
