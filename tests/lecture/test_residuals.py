"""Gradients over depth, against autograd on networks written another way."""

import pytest
import torch

import recurra as rc
from recurra.cli.main import run
from recurra.lecture.residuals import FORMS


def test_a_skip_keeps_the_gradient() -> None:
    found = rc.lecture.gradients_over_depth(depth=20)
    assert found.left["none"] < 1e-2
    assert found.left["outside"] > 1


@pytest.mark.parametrize("activation", ["tanh", "relu", "linear"])
def test_identity_at_the_start(activation: str) -> None:
    found = rc.lecture.gradients_over_depth(5, 8, activation=activation)
    assert found.identity_errors["outside"] == 0  # φ(0) = 0
    assert found.identity_errors["none"] == pytest.approx(1)
    assert (found.identity_errors["inside"] == 0) == (activation == "linear")


def test_sigmoid_is_no_identity_at_zero() -> None:
    assert rc.lecture.gradients_over_depth(5, 8, activation="sigmoid").identity_errors["outside"] > 0.1


@pytest.mark.parametrize("form", FORMS)
def test_one_linear_layer_by_hand(form: str) -> None:
    """L = ½‖y − t‖²: ∂L/∂x = Aᵀ(A x − t), with A = W, or W + I where the skip joins."""
    found = rc.lecture.gradients_over_depth(1, 4, activation="linear", seed=3)
    torch.manual_seed(3)
    W = torch.randn(1, 4, 4, dtype=torch.float64)[0] * 0.7 / 2
    x, t = torch.randn(64, 4, dtype=torch.float64), torch.randn(64, 4, dtype=torch.float64)
    A = W if form == "none" else W + torch.eye(4)
    error = x @ A.T - t
    assert found.norms[form].tolist() == pytest.approx([float((error @ A).norm()), float(error.norm())])


def test_stacked_layers_are_those_of_a_recurrent_with_residuals() -> None:
    found = rc.lecture.gradients_over_depth(3, 6, cell="elman", steps=4, seed=1)
    torch.manual_seed(1)
    parts = [rc.Recurrent("elman", 6, 6, engine="eager").double() for _ in range(3)]
    with torch.no_grad():
        for part in parts:
            part.layers[0][0].W.mul_(0.7)  # the scale
    x, target = torch.randn(16, 4, 6, dtype=torch.float64), torch.randn(16, 6, dtype=torch.float64)
    whole = rc.Recurrent("elman", 6, 6, layers=3, residual=True, engine="eager").double()
    for k, part in enumerate(parts):
        whole.layers[k].load_state_dict(part.layers[0].state_dict())
    x.requires_grad_()
    # `Recurrent` adds from its second layer on; the first skip is added here
    first = parts[0](x).outputs
    assert torch.allclose(whole(x).outputs, second(parts, first), atol=1e-12)
    last = second(parts, x + first)[:, -1]
    ((last - target).square().sum() / 2).backward()
    assert float(found.norms["outside"][0]) == pytest.approx(float(x.grad.norm()))
    assert float(found.straight["outside"][0]) == pytest.approx(float(x.grad[:, -1].norm()))


def test_straight_down_a_stack_the_gradient_vanishes_and_ways_through_time_bring_it_back() -> None:
    one, many = (rc.lecture.gradients_over_depth(16, cell="elman", steps=steps) for steps in (1, 30))
    assert one.left["none"] == pytest.approx(one.left_straight["none"])  # a single step: nothing but straight down
    assert one.left["none"] < 0.01
    assert many.left_straight["none"] < 0.001
    assert many.left["none"] > 0.3
    assert many.left_straight["outside"] > 1


def test_scale_is_of_the_weights_from_layer_to_layer() -> None:
    large, small = (rc.lecture.gradients_over_depth(8, 8, cell="elman", scale=scale) for scale in (1.0, 0.5))
    assert small.left_straight["none"] < 0.1 * large.left_straight["none"]


def test_the_command(capsys) -> None:
    assert run(["lecture", "depth", "8", "--cell", "gru", "--width", "8"]) == 0
    assert "8 stacked layers of gru" in capsys.readouterr().out


def second(parts: list[rc.Recurrent], y: torch.Tensor) -> torch.Tensor:
    for part in parts[1:]:
        y = y + part(y).outputs
    return y
