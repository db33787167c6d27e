"""Lyapunov exponents of many trajectories at once: the same as of each alone, on compiled kernels and step by step."""

import math
import time

import numpy as np
import pytest
import torch

import recurra as rc
from recurra.analysis import exponents
from recurra.analysis.exponents import lyapunov_spectrum
from recurra.analysis.jacobians import StepMap
from tests.analysis.dynamics import elman_with, without_input


@rc.cell
def henon(x, U, a, b):
    """Hénon 1976, a = 1.4, b = 0.3: the exponents are 0.419 and log 0.3 − 0.419."""
    return 1.0 - 1.4 * a * a + b + x.force, 0.3 * a


STARTS = torch.rand(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.2 - 0.1


def test_the_henon_map_in_float32_and_float64():
    for dtype in (torch.float32, torch.float64):
        F = StepMap(without_input(henon, 1).to(dtype))
        found = lyapunov_spectrum(F, STARTS[:50].to(dtype), torch.zeros(2000, 1, dtype=dtype), warmup=100)
        assert found.shape == (50, 2)
        assert found.dtype == torch.float64
        assert float(found[:, 0].mean()) == pytest.approx(0.4192, abs=0.005)
        torch.testing.assert_close(
            found.sum(1), torch.full((50,), math.log(0.3), dtype=torch.float64), atol=1e-9, rtol=0
        )
    single = lyapunov_spectrum(StepMap(without_input(henon, 1), torch.float32), STARTS[0], torch.zeros(500, 1))
    assert single.dtype == torch.float32
    assert float(single.sum()) == pytest.approx(math.log(0.3), abs=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"cell": "gru", "hidden_size": 5},
        {"cell": "skip(d=3)", "hidden_size": 2},
        {"cell": ["lstm", "elman"], "hidden_size": [2, 3]},
        {"cell": "elman", "hidden_size": 3, "layers": 2, "residual": True},
    ],
    ids=str,
)
def test_many_trajectories_are_each_as_alone(options, compiled, monkeypatch):
    monkeypatch.setattr(exponents, "LONG", 1 if compiled else 10**9)
    torch.manual_seed(0)
    F = StepMap(rc.Recurrent(input_size=2, learn_initial=True, **options))
    x, s = torch.randn(4, 150, 2, dtype=torch.float64), 0.3 * torch.randn(4, F.size, dtype=torch.float64)
    found = lyapunov_spectrum(F, s, x, warmup=10, count=4)
    assert found.shape == (4, 4)
    for k in range(4):
        # by hand: one Jacobian after the other
        now, Q, logs = s[k][None], torch.eye(F.size, dtype=torch.float64), []
        Q = torch.linalg.qr(torch.randn(F.size, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
        for t in range(150):
            step = F.step(now, x[k, t][None])
            now = step.next
            Q, R = torch.linalg.qr(step.state[0] @ Q)
            logs.append(R.diagonal().abs().log())
        weights = torch.from_numpy(exponents._window(140))[:, None]
        expected = (weights * torch.stack(logs)[10:]).sum(0) / weights.sum()
        torch.testing.assert_close(found[k], expected.sort(descending=True).values, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(lyapunov_spectrum(F, s[k], x[k], warmup=10, count=4), found[k], atol=1e-9, rtol=1e-9)


def test_a_direction_that_ends_goes_on_as_another_one():
    """A unit without memory has the exponent −inf; one that forgets only at first has not."""
    _, F = elman_with(torch.diag(torch.tensor([0.5, 0.0], dtype=torch.float64)), "linear")
    found = lyapunov_spectrum(F, torch.ones(3, 2, dtype=F.dtype), torch.zeros(200, 1))
    torch.testing.assert_close(found[:, 0], torch.full((3,), math.log(0.5), dtype=F.dtype))
    assert (found[:, 1] == -math.inf).all()
    _, F = elman_with(torch.diag(torch.tensor([0.5, 0.7], dtype=torch.float64)), "relu")
    start = torch.tensor([[-1.0, 1.0], [1.0, 1.0]], dtype=F.dtype)
    F.layers[0].b += 0.4  # the first unit of the first trajectory is off for a step only
    found = lyapunov_spectrum(F, start, torch.zeros(300, 1), warmup=50)
    torch.testing.assert_close(found, torch.tensor([[0.7, 0.5]] * 2, dtype=F.dtype).log(), atol=1e-6, rtol=0)


def test_a_result_says_how_many_trajectories_it_is_the_mean_of():
    layer = rc.Recurrent("elman", 1, 4)
    many = rc.lyapunov(layer, torch.randn(6, 80, 1), warmup=10)
    assert many.each.shape == (6, 4)
    torch.testing.assert_close(many.exponents, many.each.mean(0))
    assert "mean of 6 trajectories" in str(many)
    started = rc.lyapunov(layer, torch.zeros(80, 1), start=torch.randn(3, 4))
    assert started.each.shape == (3, 4)
    one = rc.lyapunov(layer, torch.randn(80, 1))
    assert one.each is None
    assert "trajectories" not in str(one)
    with pytest.raises(
        rc.ShapeError, match=r"need states \[4\] or \[N, 4\] and inputs \[T, 1\] or \[N, T, 1\]; got \[3\] and"
    ):
        lyapunov_spectrum(StepMap(layer), torch.zeros(3), torch.zeros(10, 1))


def seconds(function):
    """Of the processor, so that other processes do not count; the best of three."""
    found = []
    for _ in range(3):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.slow
def test_the_henon_map_costs_what_a_loop_of_numpy_costs():
    F, T = StepMap(without_input(henon, 1)), 30_000

    def numpy_loop():
        a, b, Q, total = 0.1, 0.1, np.eye(2), np.zeros(2)
        for _ in range(T):
            J = np.array([[-2.8 * a, 1.0], [0.3, 0.0]])
            a, b = 1 - 1.4 * a * a + b, 0.3 * a
            Q, R = np.linalg.qr(J @ Q)
            total += np.log(np.abs(np.diag(R)))
        return total / T

    one = seconds(lambda: lyapunov_spectrum(F, STARTS[0], torch.zeros(T, 1), warmup=100))
    assert one <= 3
    assert one <= 2 * seconds(numpy_loop)
    many = seconds(lambda: lyapunov_spectrum(F, STARTS, torch.zeros(T, 1), warmup=100))
    assert many <= 10 * one
