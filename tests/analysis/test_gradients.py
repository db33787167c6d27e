"""Gradients over time: linear cells by their eigenvalues, exponents of known systems, and verdicts in words."""

import math

import pytest
import torch

from recurra import Recurrent
from recurra.analysis.exponents import lyapunov_exponents, lyapunov_spectrum
from recurra.analysis.gradients import Verdict, gradient_flow, products, spectrum
from recurra.analysis.jacobians import StepMap
from recurra.errors import OptionError, ShapeError
from tests.analysis.dynamics import elman_with, lorenz, without_input


def random_matrix(size: int, radius: float, seed: int = 3) -> torch.Tensor:
    matrix = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return matrix * radius / torch.linalg.eigvals(matrix).abs().max()


def test_the_slope_of_a_linear_cell_is_the_logarithm_of_its_spectral_radius() -> None:
    layer, _ = elman_with(random_matrix(12, 0.9), "linear")
    flow = gradient_flow(layer, torch.randn(240, 1), steps=200)
    assert flow.verdict.slope == pytest.approx(math.log(0.9), rel=0.01)
    assert str(flow.verdict).startswith("vanishes with a half-life of 6.")


def test_tanh_shrinks_more_than_the_line() -> None:
    matrix = random_matrix(12, 1.2)
    line, _ = elman_with(matrix, "linear")
    curve, _ = elman_with(matrix, "tanh")
    with torch.no_grad():
        for layer in (line, curve):
            layer.stack[0][0].W.fill_(1.0)
    x = torch.randn(240, 1)
    one, other = (gradient_flow(layer, x, steps=200).verdict for layer in (line, curve))
    assert other.slope < one.slope
    assert one.kind == "explodes"


def lstm_with(**biases: float) -> Recurrent:
    """The usual first weights, with some gates' biases far out, so that these gates stay open or shut to rounding."""
    torch.manual_seed(0)
    layer = Recurrent("lstm", 2, 16).double()
    with torch.no_grad():
        for gate, bias in biases.items():
            rows = layer.cell.graph.drives.index(gate) * 16
            layer.stack[0][0].b[rows : rows + 16] = bias
    return layer


def test_forget_gates_at_one_carry_the_cell_state_over_a_thousand_steps() -> None:
    flow = gradient_flow(lstm_with(f=40.0), torch.randn(1040, 2), steps=1000, starts=1)
    assert list(flow.carried) == ["c"]  # h has no path past the recurrent matrices
    assert str(flow.verdict_on_carried("c")) == "holds to 1000 steps"
    assert float(flow.carried["c"].abs().max()) < 1e-9
    assert flow.verdict.slope > -1e-3  # what goes through h as well may add to it, but nothing vanishes


def test_a_memory_with_its_input_gates_shut_holds_as_a_whole() -> None:
    flow = gradient_flow(lstm_with(f=40.0, i=-40.0), torch.randn(1040, 2), steps=1000, starts=1)
    assert str(flow.verdict) == "holds to 1000 steps"
    assert abs(flow.verdict.slope) < 1e-9
    assert float((flow.loss["c"][-1] - flow.loss["c"][1]).abs()) < 1


def test_forget_gates_below_one_carry_less_at_each_step() -> None:
    flow = gradient_flow(lstm_with(f=4.0), torch.randn(1040, 2), steps=1000, starts=1)
    assert flow.verdict_on_carried("c").kind == "vanishes"


def test_the_loss_reaches_back_as_the_product_of_jacobians_says() -> None:
    torch.manual_seed(0)
    layer = Recurrent("gru", 2, 6).double()
    x = torch.randn(60, 2, dtype=torch.float64)
    flow = gradient_flow(layer, x, steps=30, starts=1)
    F = StepMap(layer)
    s, jacobians = F.pack(layer.initial_state(1)).detach(), []
    for t in range(51):
        step = F.step(s, x[t : t + 1])
        s = step.next
        jacobians.append(step.state[0])
    found, logs = products(torch.stack(jacobians[-30:]))
    expected = (torch.ones(6, dtype=torch.float64) @ found).norm(dim=1).log() + logs
    torch.testing.assert_close(flow.loss["h"], expected, rtol=0, atol=1e-8)


def test_the_loss_sees_every_layer_of_a_residual_stack() -> None:
    layer = Recurrent("gru", 2, 6, layers=3, residual=True).double()
    flow = gradient_flow(layer, torch.randn(60, 2), steps=10)
    for k in range(3):  # the output is the sum of all layers' outputs
        assert float(flow.loss[f"layer {k} h"][0]) == pytest.approx(math.log(6) / 2)


@pytest.mark.parametrize("size", [3, 5, 8])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_exponents_of_a_linear_network_are_logarithms_of_its_eigenvalues(size: int, seed: int) -> None:
    _, F = elman_with(random_matrix(size, 0.95, seed), "linear")
    expected = torch.linalg.eigvals(F.layers[0].matrices["h"]).abs().log().sort(descending=True).values
    found = lyapunov_exponents(
        F.step(torch.zeros(1, size, dtype=F.dtype), torch.zeros(1, 1)).state.expand(4000, -1, -1)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    if size == 3:
        along = lyapunov_spectrum(F, torch.ones(3, dtype=F.dtype), torch.zeros(3000, 1), warmup=200)
        torch.testing.assert_close(along, expected, rtol=0, atol=1e-6)


def test_a_unit_without_memory_has_the_exponent_minus_infinity() -> None:
    found = lyapunov_exponents(torch.diag(torch.tensor([0.5, 0.0], dtype=torch.float64)).expand(1000, -1, -1))
    assert float(found[0]) == pytest.approx(math.log(0.5))
    assert float(found[1]) == -math.inf


def test_exponents_need_steps_after_the_warm_up() -> None:
    _, F = elman_with(torch.eye(2, dtype=torch.float64), "linear")
    with pytest.raises(OptionError, match="warm-up"):
        lyapunov_spectrum(F, torch.zeros(2, dtype=F.dtype), torch.zeros(10, 1), warmup=10)


@pytest.mark.slow
def test_exponents_of_the_lorenz_system() -> None:
    layer = without_input(lorenz, 1)
    F = StepMap(layer)
    start = torch.tensor([1.0, 1.0, 20.0], dtype=F.dtype)
    found = lyapunov_spectrum(F, start, torch.zeros(60_000, 1), warmup=2000) / 0.01
    assert float(found[0]) == pytest.approx(0.906, rel=0.02)
    assert abs(float(found[1])) < 0.01
    assert float(found[2]) == pytest.approx(-14.57, rel=0.02)


@pytest.mark.slow
def test_a_shorter_run_of_the_lorenz_system_is_chaotic() -> None:
    F = StepMap(without_input(lorenz, 1))
    found = lyapunov_spectrum(F, torch.tensor([1.0, 1.0, 20.0], dtype=F.dtype), torch.zeros(4000, 1), warmup=500) / 0.01
    assert 0.6 < float(found[0]) < 1.2
    assert float(found.sum()) == pytest.approx(-13.667, rel=0.01)  # the volume shrinks by σ + 1 + β


def test_factors_stand_apart() -> None:
    layer, _ = elman_with(random_matrix(6, 0.8), "tanh")
    flow = gradient_flow(layer, torch.randn(60, 1), steps=30)
    (factor,) = flow.factors
    assert factor.matrix == "U.h"
    assert factor.spectral_radius == pytest.approx(0.8)
    assert factor.mean_factor == pytest.approx(1.0)  # nothing comes in: tanh'(0)


def test_survival_of_components() -> None:
    found = spectrum(torch.diag(torch.tensor([0.5, -0.9, 1.0])), steps=10)
    assert found.eigenvalues.abs().tolist() == pytest.approx([1.0, 0.9, 0.5])
    assert found.survival[10].tolist() == pytest.approx([1.0, 0.9**10, 0.5**10])
    assert found.radius == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("slope", "words"),
    [
        (-math.log(2) / 10, "vanishes with a half-life of 10 steps"),
        (math.log(2) / 4, "explodes: doubles every 4 steps"),
        (1e-4, "holds to 50 steps"),
        (-math.inf, "vanishes at once"),
        (math.nan, "is undefined"),
    ],
)
def test_verdicts_in_words(slope: float, words: str) -> None:
    assert str(Verdict(slope, 50)).startswith(words)


class TestOddNetworks:
    def test_no_recurrent_weights(self) -> None:
        layer, _ = elman_with(torch.zeros(3, 3, dtype=torch.float64))
        assert str(gradient_flow(layer, torch.randn(60, 1), steps=20).verdict).startswith("vanishes at once")

    def test_one_unit(self) -> None:
        layer, _ = elman_with(torch.full((1, 1), 0.5, dtype=torch.float64))
        assert gradient_flow(layer, torch.zeros(60, 1), steps=20).verdict.half_life == pytest.approx(1.0)

    def test_weights_that_are_no_numbers(self) -> None:
        layer, _ = elman_with(torch.full((2, 2), math.nan, dtype=torch.float64))
        with pytest.raises(ShapeError, match="not a number"):
            gradient_flow(layer, torch.randn(60, 1), steps=20)

    def test_a_sequence_that_is_too_short(self) -> None:
        layer, _ = elman_with(torch.eye(2, dtype=torch.float64))
        with pytest.raises(OptionError, match="at least 120 inputs"):
            gradient_flow(layer, torch.randn(60, 1), steps=100)
