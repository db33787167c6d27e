"""Fixed points of maps whose points are known: all of them, each of its kind, to rounding."""

import math

import pytest
import torch

from recurra import Recurrent
from recurra.analysis import fixed_points
from recurra.analysis.fields import settle
from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.jacobians import Step, StepMap
from recurra.errors import ShapeError
from tests.analysis.dynamics import elman_with, van_der_pol, without_input


def everywhere(size: int, spread: float = 1.0) -> torch.Tensor:
    random = torch.Generator().manual_seed(1)
    return spread * (2 * torch.rand(200, size, dtype=torch.float64, generator=random) - 1)


def search(F: StepMap, spread: float = 1.0, **options) -> FixedPoints:
    return find_fixed_points(F, torch.zeros(F.input_size), everywhere(F.size, spread), **options)


def kinds(found: FixedPoints) -> dict[str, int]:
    counted: dict[str, int] = {}
    for point in found.points:
        counted[str(point)] = counted.get(str(point), 0) + 1
    return counted


def test_three_bistable_units_have_27_points() -> None:
    _, F = elman_with(2 * torch.eye(3, dtype=torch.float64))
    found = search(F)
    assert kinds(found) == {"attractor": 8, "saddle of index 1": 12, "saddle of index 2": 6, "repeller": 1}
    assert found.index_sum == 1
    assert found.completeness.startswith("not refuted")
    assert max(point.residual for point in found.points) < 1e-12
    assert found.unconverged == 0
    assert sorted(tuple(p.state.sign().tolist()) for p in found.attractors) == sorted(
        (a, b, c) for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)
    )


def test_a_missing_point_is_noticed() -> None:
    _, F = elman_with(2 * torch.eye(1, dtype=torch.float64))
    found = search(F)
    assert found.index_sum == 1
    without = FixedPoints(found.attractors, [], 0, found.starts, found.iterations, found.tolerance, found.is_bounded)
    assert without.completeness.startswith("refuted")


def test_a_rotation_spirals_in() -> None:
    turn = torch.tensor([[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]], dtype=torch.float64)
    _, F = elman_with(0.9 * turn)
    found = search(F)
    assert kinds(found) == {"attractor, spiral": 1}
    assert found.points[0].eigenvalues.abs().tolist() == pytest.approx([0.9, 0.9])


def test_a_cycle_of_two() -> None:
    _, F = elman_with(-2 * torch.eye(1, dtype=torch.float64))
    found = search(F, period=2)
    assert [str(point) for point in found.points] == ["repeller"]
    assert [str(point) for point in found.cycles] == ["attractor of period 2"]
    assert settle(F, torch.zeros(1), torch.tensor([0.3])).kind == "cycle of period 2"


def test_a_line_of_fixed_points_is_recognised() -> None:
    matrix = torch.diag(torch.tensor([1.0, 0.5, 0.3], dtype=torch.float64))
    _, F = elman_with(matrix, "linear")
    found = search(F)
    assert found.line_attractor
    assert {point.kind for point in found.points} == {"marginal"}
    assert found.completeness.startswith("not checked")
    assert "line attractor" in str(found)


def test_a_few_attractors_are_no_line() -> None:
    _, F = elman_with(2 * torch.eye(2, dtype=torch.float64))
    assert not search(F).line_attractor


@pytest.mark.slow
def test_a_limit_cycle_is_recognised() -> None:
    F = StepMap(without_input(van_der_pol, 1))
    found = search(F, 2.0)
    assert [str(point) for point in found.points] == ["repeller, spiral"]
    settled = settle(F, torch.zeros(1), torch.tensor([0.5, 0.1]))
    assert settled.kind == "limit cycle"
    assert abs(float(settled.exponents[0])) < 1e-3
    assert float(settled.exponents[1]) < -0.01


def test_a_slow_point_is_no_fixed_point() -> None:
    """tanh(h) + 0.001 has its only fixed point far from 0, where it lingers."""
    layer, _ = elman_with(torch.eye(1, dtype=torch.float64))
    with torch.no_grad():
        layer.stack[0][0].b.fill_(-1e-3)
        layer.stack[0][0].U.fill_(1.02)
    F = StepMap(layer)
    random = 0.3 * torch.rand(200, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = find_fixed_points(F, torch.zeros(1), random, noise=0.0)
    assert all(point.residual < 1e-12 for point in found.points)
    assert found.starts >= 1024
    assert sum(point.starts for point in found.points) + found.unconverged <= found.starts


def test_the_full_state_of_an_lstm_is_searched() -> None:
    torch.manual_seed(0)
    layer = Recurrent("lstm", 2, 4).double()
    F = StepMap(layer)
    visited = F.visited(torch.randn(4, 50, 2, dtype=torch.float64)).flatten(0, 1).detach()
    found = find_fixed_points(F, torch.zeros(2), visited, starts=64)
    assert found.points
    states = torch.stack([point.state for point in found.points])
    assert states.shape[1] == 8
    _, after = layer.step(torch.zeros(len(states), 2, dtype=torch.float64), F.unpack(states))
    torch.testing.assert_close(F.pack(after).detach(), states, rtol=0, atol=1e-12)
    assert found.completeness.startswith("not refuted")


def test_a_part_that_is_eliminated_by_hand_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    layer = Recurrent("lstm", 2, 6, engine="eager").double()
    with torch.no_grad():
        layer.stack[0][0].U *= 3.0
    F = StepMap(layer)
    found = search(F, starts=64)
    monkeypatch.setattr(StepMap, "local", None)
    whole = search(F, starts=64)
    assert str(found) == str(whole)
    assert len(found.points) > 1
    for one, other in zip(found.points, whole.points, strict=True):
        torch.testing.assert_close(one.state, other.state, rtol=0, atol=1e-10)
        assert one.starts == other.starts


def test_few_jacobians_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, F = elman_with(2 * torch.eye(3, dtype=torch.float64))
    sizes: list[int] = []
    step = StepMap.step

    def noted(self: StepMap, s: torch.Tensor, x: torch.Tensor) -> Step:
        sizes.append(len(s))
        return step(self, s, x)

    monkeypatch.setattr(StepMap, "step", noted)
    usual = search(F)
    monkeypatch.setattr(fixed_points, "NUMBERS", 9 * 50)
    assert max(sizes) == 1024
    sizes.clear()
    assert str(search(F)) == str(usual)
    assert max(sizes) == 50


def test_a_polish_that_does_not_help_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, F = elman_with(2 * torch.eye(3, dtype=torch.float64))
    tried: list[int] = []
    newton = fixed_points._Search._newton

    def noted(self: fixed_points._Search, s: torch.Tensor) -> torch.Tensor:
        tried.append(len(s))
        return newton(self, s)

    monkeypatch.setattr(fixed_points._Search, "_newton", noted)
    found = search(F, starts=500)
    assert sum(tried) < 2 * found.starts


def test_a_network_that_has_diverged_gets_a_sentence() -> None:
    _, F = elman_with(torch.eye(2, dtype=torch.float64))
    with pytest.raises(ShapeError, match="diverged, or a weight is NaN"):
        find_fixed_points(F, torch.zeros(1), torch.full((3, 2), math.nan, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"\[M, 2\]"):
        find_fixed_points(F, torch.zeros(1), torch.zeros(3, 5, dtype=torch.float64))


def test_no_recurrent_weights_leave_one_point() -> None:
    _, F = elman_with(torch.zeros(2, 2, dtype=torch.float64))
    assert kinds(search(F, starts=32)) == {"attractor": 1}


def test_a_map_that_grows_is_not_bounded() -> None:
    _, F = elman_with(2 * torch.eye(2, dtype=torch.float64), "linear")
    found = search(F, starts=32)
    assert kinds(found) == {"repeller": 1}
    assert found.completeness.startswith("not checked: large states")
