"""Slow points are minima of the speed, and those that no trajectory reaches say so."""

import pytest
import torch

import recurra as rc
from recurra.analysis.jacobians import StepMap
from tests.analysis.dynamics import lorenz, without_input


@rc.cell
def ghost(x, U, h, g):
    """Just past a saddle-node: h ← h + 0.1 (h² + 0.001) lingers at 0 and has no fixed point; g follows it."""
    return h + 0.1 * (h * h + 0.001) + x.h, 0.5 * g + 0.2 * h


@rc.cell
def mgu(x, U, h):
    """Minimal gated unit. Zhou et al. 2016."""
    f = rc.sigmoid(x.f + U.f(h))
    n = rc.tanh(x.n + U.n(f * h))
    return (1 - f) * h + f * n


def test_the_ghost_of_a_saddle_node_is_found_where_the_speed_is_least():
    F = StepMap(without_input(ghost, 1))
    visited = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.5
    found = rc.find_fixed_points(F, visited=visited, starts=64)
    assert not found.points
    (slow,) = found.slow
    # q = ½((0.1 (h² + μ))² + (0.2 h − 0.5 g)²) is least at 0
    torch.testing.assert_close(slow.state, torch.zeros(2, dtype=torch.float64), atol=1e-5, rtol=0)
    assert slow.speed == pytest.approx(0.5e-8, rel=1e-3)
    assert slow.slope < 1e-3
    assert slow.is_reachable
    assert not slow.is_far
    assert found.unconverged == 0
    assert found.to_json()["slow"][0]["is_reachable"]
    elsewhere = rc.find_fixed_points(F, visited=visited.abs() + 3, also=torch.zeros(1, 2), starts=4, noise=0.0)
    assert [(point.is_far, point.is_reachable) for point in elsewhere.slow] == [(True, False)]
    assert "1 slow point(s), 1 of them out of reach" in str(elsewhere)


@pytest.mark.parametrize("seed", range(3))
def test_closed_gates_far_out_are_no_slow_points(seed):
    """An MGU stays within ±1, but q falls to 0 on the way to infinity, where its gates close: there is no minimum."""
    torch.manual_seed(seed)
    layer = rc.Recurrent(mgu, 2, 16)
    with torch.no_grad():
        layer.stack[0][0].U *= 2.5
        layer.weight("b.f").fill_(-2.0)
        layer.stack[0][0].W *= 2
    F = StepMap(layer)
    visited = F.visited(torch.randn(8, 100, 2)).flatten(0, 1)
    found = rc.find_fixed_points(layer, torch.tensor([0.3, -0.2]), visited, starts=128, slow=1e-4)
    for point in found.slow:
        s = point.state[None]
        step = F.step(s, torch.tensor([[0.3, -0.2]]))
        G = step.next[0] - s[0]
        gradient = (step.state[0] - torch.eye(16, dtype=F.dtype)).T @ G
        assert float(gradient.norm() / G.norm()) <= 1e-3
        assert point.is_reachable == bool(point.state.abs().max() <= 1.05)
        assert not point.is_far
    assert len(found.points) >= 1


def test_what_is_marginal_is_for_the_caller_to_say():
    """Over a step of 0.01 the spirals of the Lorenz system grow by 0.1 %: they are unstable all the same."""
    F = StepMap(without_input(lorenz, 1))
    visited = F.visited(torch.zeros(1, 2000, 1), ((tuple(torch.full((1, 1), v) for v in (1.0, 1.0, 20.0)),),))[0]
    kinds = {}
    for width in (1e-3, 1e-4):
        found = rc.find_fixed_points(F, visited=visited, starts=64, marginal=width)
        spirals = [point for point in found.points if point.is_spiral]
        kinds[width] = {point.kind for point in spirals}
        assert len(spirals) == 2
        assert all(point.marginal == width for point in spirals)
    assert kinds == {1e-3: {"marginal"}, 1e-4: {"saddle"}}
    with pytest.raises(rc.OptionError, match=r"marginal must lie in \[0, 1\); got -1"):
        rc.find_fixed_points(F, marginal=-1)
