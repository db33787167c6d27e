"""Gradients for all pairs of steps, held to automatic differentiation and to `gradient_flow`."""

import math

import pytest
import torch

import recurra as rc


@pytest.mark.parametrize("cell", ["elman", "lstm", "skip(d=3)"])
def test_every_pair_is_what_autograd_gives(cell):
    torch.manual_seed(0)
    F = rc.analysis.StepMap(rc.Recurrent(cell, 2, 3))
    x = torch.randn(7, 2, dtype=F.dtype)
    found = rc.analysis.gradient_map(F, x)
    for t in range(1, 8):
        for k in range(t + 1):

            def run(s, t=t, k=k):
                for step in range(t - k, t):
                    s = F(s[None], x[step][None])[0]
                return s

            jacobian = torch.autograd.functional.jacobian(run, found.states[t - k])
            assert float(found.logs[t - 1, k]) == pytest.approx(
                math.log(float(torch.linalg.matrix_norm(jacobian, 2))), abs=1e-9
            )
    assert bool(torch.isnan(found.logs[2, 4:]).all())


def test_it_agrees_with_the_flow():
    layer, x = rc.Recurrent("gru", 2, 5), torch.randn(40, 2)
    found = rc.analysis.gradient_map(layer, x)
    flow = rc.gradient_flow(layer, x, steps=20, starts=1, warmup=20)
    assert torch.allclose(found.logs[-1, :21], flow.state)


def test_exactly_zero_is_minus_infinity():
    layer = rc.Recurrent("elman(activation=relu)", 1, 2)
    with torch.no_grad():
        layer.stack[0][0].b.fill_(-100.0)
    found = rc.analysis.gradient_map(layer, torch.randn(5, 1))
    assert found.logs[4, 3] == -math.inf
    assert found.to_json()["log_norms"][4][3] is None
    assert "vanishes at once" in str(found)


def test_what_is_too_large_is_refused():
    with pytest.raises(rc.OptionError, match="too large"):
        rc.analysis.gradient_map(rc.Recurrent("elman", 1, 600), torch.randn(64, 1))
    with pytest.raises(rc.OptionError, match="at least one input"):
        rc.analysis.gradient_map(rc.Recurrent("elman", 1, 2), torch.randn(0, 1))


def test_picture(tmp_path):
    rc.analysis.gradient_map(rc.Recurrent("elman", 1, 2), torch.randn(8, 1)).plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
