"""The gradient of one unit: powers of the weight, and less than that where the activation is curved."""

import pytest

from recurra.errors import OptionError
from recurra.lecture.scalar_case import SHOWN, scalar_gradient, scalar_page


def test_the_line_gives_powers_of_the_weight() -> None:
    assert scalar_gradient(0.9, "linear", steps=20) == pytest.approx([0.9**k for k in range(21)])


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_a_curved_activation_gives_less(activation: str) -> None:
    found = scalar_gradient(0.9, activation, steps=20, x=0.3)
    assert all(abs(value) < 0.9**k for k, value in enumerate(found) if k)


def test_a_rectifier_gives_nothing_once_it_is_negative() -> None:
    assert scalar_gradient(0.9, "relu", steps=5, x=-1.0)[-1] == 0
    assert scalar_gradient(0.9, "relu", steps=5, x=1.0)[-1] == pytest.approx(0.9**5)


def test_the_page_has_every_activation_and_needs_nothing_else() -> None:
    page = scalar_page()
    assert all(f"{name}: [" in page for name in SHOWN)
    assert "http" not in page
    assert "__FIRST__" not in page


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean 'tanh'"):
        scalar_gradient(1.0, "tahn")
