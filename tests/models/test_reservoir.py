"""Echo state networks: the equation written out, the readout against scikit-learn, feedback, depth, and constant memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from recurra.data.series_tasks import mackey_glass, narma, sines
from recurra.errors import DataError, OptionError
from recurra.models.reservoir import EchoState, ReadoutFit, join

MB = 10**6


def make_model(*sizes: int, **options: Any) -> EchoState:
    inputs, outputs = sizes or (0, 1)
    return EchoState(inputs, outputs, **({"feedback": inputs == 0, "hidden_size": 30} | options))


class TestReservoir:
    def test_its_equation(self) -> None:
        """h_t = (1 − a) h_{t−1} + a tanh(W x_t + U h_{t−1} + b), read with 1 and x_t before it."""
        model = make_model(2, 1, leak=(0.3, 1.0), hidden_size=10)
        (layer,) = model.stacks[0].stack[0]
        a = torch.tensor([0.3] * 5 + [1.0] * 5, dtype=torch.float64)
        x, h = torch.randn(1, 7, 2, dtype=torch.float64), torch.zeros(10, dtype=torch.float64)
        read, _ = model.echoes(x)
        for t in range(7):
            h = (1 - a) * h + a * torch.tanh(layer.W @ x[0, t] + layer.b + layer.U @ h)
            wanted = torch.cat([torch.ones(1, dtype=torch.float64), x[0, t], h])
            torch.testing.assert_close(read[0, t], wanted)

    def test_radius_density_and_scales_are_as_asked(self) -> None:
        model = make_model(hidden_size=200, radius=1.1, density=0.05, input_scale=0.4, bias_scale=0.0)
        (layer,) = model.stacks[0].stack[0]
        assert float(torch.linalg.eigvals(layer.U).abs().max()) == pytest.approx(1.1, abs=1e-10)
        assert float((layer.U != 0).double().mean()) == pytest.approx(0.05, rel=0.1)
        assert 0.3 < float(layer.W.abs().max()) <= 0.4
        assert not layer.b.any()

    def test_nothing_is_trained_by_gradients(self) -> None:
        assert not any(each.requires_grad for each in make_model().parameters())

    def test_layers_and_reservoirs_are_all_read(self) -> None:
        model = make_model(1, 1, layers=3, reservoirs=2, hidden_size=8)
        x = torch.randn(2, 9, 1, dtype=torch.float64)
        read, states = model.echoes(x)
        assert read.shape == (2, 9, 2 + 2 * 3 * 8)
        for k, reservoir in enumerate(model.stacks):
            below = x
            for i, (layer,) in enumerate(reservoir.stack):
                alone, _, _ = layer(below.transpose(0, 1), None, None, "eager", False)
                first = 2 + (3 * k + i) * 8
                torch.testing.assert_close(read[..., first : first + 8], alone.transpose(0, 1))
                torch.testing.assert_close(states[k][i][0][0], alone[-1])
                below = alone.transpose(0, 1)

    def test_in_pieces_it_says_the_same(self) -> None:
        model = make_model(1, 1, layers=2, reservoirs=2)
        x = torch.randn(1, 20, 1, dtype=torch.float64)
        whole, _ = model.echoes(x)
        first, states = model.echoes(x[:, :13])
        second, _ = model.echoes(x[:, 13:], states)
        torch.testing.assert_close(torch.cat([first, second], dim=1), whole)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"leak": 0.0}, "leak"),
            ({"leak": ()}, "leak"),
            ({"radius": 0.0}, "rho"),
            ({"density": 1.5}, "density"),
            ({"density": 1e-9}, "higher density"),
            ({"reservoirs": 0}, "reservoirs"),
            ({"feedback": False}, "needs inputs"),
        ],
    )
    def test_what_is_refused(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(OptionError, match=said):
            make_model(**options)


class TestReadout:
    @pytest.mark.parametrize("feedback", [False, True])
    def test_it_equals_scikit_learn(self, feedback: bool) -> None:
        u, y = narma(1500, seed=1)
        model = make_model(1, 1, hidden_size=100, feedback=feedback)
        model.standardise(y, u)
        fit = ReadoutFit(model, y, u, washout=200, length=137)
        for _ in range(fit.chunks):
            fit.read()
        left = fit.solve(1e-3)
        x, wanted = model.rows(y[None], u[None])
        read, dropped = model.echoes(x)[0][0], 200 - feedback
        X, Y = read[dropped:].numpy(), wanted[0, dropped:].numpy()
        assert fit.ridge.rows == len(Y) == 1300
        known = Reference(alpha=1e-3, fit_intercept=False, solver="svd").fit(X, Y)
        assert abs(model.output.weight.numpy() - known.coef_).max() < 1e-8
        said = model(x)[0][0, dropped:]
        torch.testing.assert_close(said, torch.from_numpy(X @ known.coef_.reshape(-1, 1)), rtol=0, atol=1e-8)
        assert left == pytest.approx(float((said - torch.from_numpy(Y)).square().mean().sqrt()), rel=1e-9)

    def test_a_series_that_ends_in_the_washout(self) -> None:
        model = make_model()
        with pytest.raises(DataError, match="too short to learn from after a washout of 100"):
            model.learn(sines(101), washout=100)
        model.learn(sines(102), washout=100)

    def test_a_constant_column(self) -> None:
        with pytest.raises(DataError, match="never changes"):
            make_model().standardise(torch.ones(10, 1, dtype=torch.float64))


class TestFreeRunning:
    def test_each_step_is_fed_what_the_step_before_said(self) -> None:
        series = sines(700, count=3)
        model = make_model()
        model.standardise(series)
        model.learn(series, washout=100, penalty=1e-8)
        states, last = model.warm_up(series[None, :400])
        said = model.run_free(5, states, last)
        known = series[None, :400]
        for k in range(5):  # the same, by reading all of it again with what was said behind it
            states, last = model.warm_up(known)
            torch.testing.assert_close(model.run_free(1, states, last)[:, 0], said[:, k], rtol=0, atol=1e-9)
            known = torch.cat([known, said[:, k : k + 1]], dim=1)

    def test_sines_go_on(self) -> None:
        series = sines(3000, count=2)
        model = make_model(hidden_size=100, input_scale=0.1)
        model.standardise(series[:2000])
        model.learn(series[:2000], washout=200, penalty=1e-12)
        said = model.run_free(300, *model.warm_up(series[None, :2500]))
        assert float((said[0] - series[2500:2800]).abs().max()) < 1e-3

    def test_inputs_and_feedback_together(self) -> None:
        u, y = narma(2400, seed=3)
        model = make_model(1, 1, feedback=True, hidden_size=60, input_scale=0.1)
        model.standardise(y[:2000], u[:2000])
        model.learn(y[:2000], u[:2000], washout=100, penalty=1e-6)
        states, last = model.warm_up(y[None, :2000], u[None, :2000])
        said = model.run_free(400, states, last, u[None, 2000:])
        assert float((said[0] - y[2000:]).std() / y[2000:].std()) < 0.8  # 1 is what the mean scores

    def test_lanes_are_runs_of_their_own(self) -> None:
        series = mackey_glass(600)
        model = make_model(layers=2)
        model.standardise(series)
        model.learn(series, washout=100, penalty=1e-6)
        one, other = (model.warm_up(series[None, : 300 + k]) for k in (0, 40))
        together = model.run_free(6, join([one[0], other[0]]), torch.cat([one[1], other[1]]))
        torch.testing.assert_close(together[:1], model.run_free(6, *one))
        torch.testing.assert_close(together[1:], model.run_free(6, *other))

    def test_without_feedback_there_is_nothing_to_run_on(self) -> None:
        model = make_model(1, 1)
        with pytest.raises(OptionError, match="cannot run free"):
            model.run_free(1, (), torch.zeros(1, 1))


MEASURE = """
import json, re, sys
from pathlib import Path
import torch
from recurra.data.series_tasks import sines
from recurra.models.reservoir import EchoState

def memory(what):
    return int(re.search(what + r":\\\\s+(\\\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

torch.set_num_threads(1)
series, model = sines(int(sys.argv[1]), count=8), EchoState(0, 1, feedback=True, hidden_size=1000, density=0.01)
model.standardise(series)
model.learn(series[:2001], washout=0, penalty=1e-9)  # libraries are loaded and kernels compiled
held = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
fit = model.learn(series, washout=100, penalty=1e-9)
print(json.dumps({"grown": memory("VmHWM") - held, "rows": fit.ridge.rows}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not tell")
def test_memory_does_not_grow_with_the_series() -> None:
    """1,000 units; 100,000 steps would be 800 MB of states. The series itself and its rows are 40 bytes a step."""
    grown = {}
    for steps in (10_000, 100_000):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE.replace("\\\\", "\\"), str(steps)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"},  # what is freed is given back
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["rows"] == steps - 100
        grown[steps] = found["grown"]
    print(grown)
    assert grown[100_000] - grown[10_000] < 90_000 * 40 + 4 * MB
