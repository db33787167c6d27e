"""The gradient of one unit: powers of the weight, and less than that where the activation is curved."""

import pytest
import torch

from recurra.cells.operations import ACTIVATIONS
from recurra.errors import OptionError
from recurra.lecture.scalar_case import SHOWN, scalar_case, scalar_gradient
from recurra.lecture.scalar_page import scalar_page


@pytest.mark.parametrize("activation", SHOWN)
@pytest.mark.parametrize(("output", "error"), [("linear", "square"), ("tanh", "square"), ("sigmoid", "cross-entropy")])
@pytest.mark.parametrize("replicas", [False, True])
def test_every_replica_gets_the_gradient_that_autograd_finds(
    activation: str, output: str, error: str, replicas: bool
) -> None:
    T, draw = 12, torch.Generator().manual_seed(0)
    x = torch.randn(T, generator=draw, dtype=torch.float64)
    v = 0.8 * (torch.rand(T, generator=draw).double() if replicas else torch.ones(T).double())
    w = torch.randn(T, generator=draw).double() if replicas else torch.full((T,), 1.1).double()
    v, w, u = v.requires_grad_(), w.requires_grad_(), torch.tensor(0.7).double().requires_grad_()
    h = torch.tensor(0.3, dtype=torch.float64)
    for t in range(T):
        h = ACTIVATIONS[activation](v[t] * h + w[t] * x[t])
    predicted, y = ACTIVATIONS[output](u * h), torch.tensor(0.4, dtype=torch.float64)
    cross_entropy = torch.nn.functional.binary_cross_entropy
    loss = 0.5 * (predicted - y).square() if error == "square" else cross_entropy(predicted, y)
    loss.backward()
    given = {"v": v.tolist() if replicas else 0.8, "w": w.tolist() if replicas else 1.1, "u": float(u.detach())}
    found = scalar_case(x, 0.4, activation=activation, output=output, error=error, start=0.3, **given)
    assert found.error == pytest.approx(float(loss.detach()), rel=1e-6)
    torch.testing.assert_close(found.of_w.flip(0), w.grad, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(found.of_v.flip(0), v.grad, rtol=1e-6, atol=1e-12)
    assert found.of_u == pytest.approx(float(u.grad), rel=1e-6)
    assert found.d_w == pytest.approx(float(w.grad.sum()), rel=1e-6)
    assert len(found.table().rows) == T


def test_with_tanh_a_factor_is_the_weight_itself_where_the_sum_is_zero() -> None:
    assert scalar_gradient(0.9, steps=3, start=0.0) == pytest.approx([1, 0.9, 0.81, 0.729])


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(OptionError, match="inside"):
        scalar_case([5.0], output="linear", error="cross-entropy", w=3.0, activation="linear")
    with pytest.raises(OptionError, match="each of the 2 steps; got 3"):
        scalar_case([1.0, 2.0], v=[1.0, 2.0, 3.0])
    with pytest.raises(OptionError, match="at least one number"):
        scalar_case([])


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
    assert "__" not in page
    assert "k, steps back" in page
    assert "</script>" not in scalar_page("</script>").split("function draw")[0]


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(OptionError, match="Did you mean 'tanh'"):
        scalar_gradient(1.0, "tahn")
