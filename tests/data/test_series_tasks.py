"""Made-up series: each obeys its own equation, found again in another way, and depends on its seed alone."""

import math

import pytest
import torch
from scipy.integrate import solve_ivp

from recurra.data.series_tasks import FREQUENCIES, lorenz, mackey_glass, narma, sines
from recurra.errors import OptionError


class TestMackeyGlass:
    def test_a_finer_step_gives_the_same_series(self) -> None:
        coarse, fine, finer = (mackey_glass(100, seed=3, step=step) for step in (0.1, 0.05, 0.025))
        errors = [float((each - finer).abs().max()) for each in (coarse, fine)]
        assert errors[0] < 1e-7  # after 1100 steps
        assert errors[0] / errors[1] == pytest.approx(16, rel=0.35)  # of order 4

    def test_its_equation(self) -> None:
        """The slope as differences of neighbours give it, to order 4."""
        y = mackey_glass(400, seed=1)[:, 0]
        slope = (y[:-4] - 8 * y[1:-3] + 8 * y[3:-1] - y[4:]) / 12
        now, delayed = y[2:-2][17:], y[2:-2][:-17]
        said = 0.2 * delayed / (1 + delayed**10) - 0.1 * now
        assert float((slope[17:] - said).abs().max()) < 0.005 * float(said.abs().max())

    def test_its_seed_and_its_range(self) -> None:
        one, other = mackey_glass(500, 0), mackey_glass(500, 1)
        assert torch.equal(one, mackey_glass(500, 0))
        assert not torch.allclose(one, other, atol=1e-2)
        assert one.shape == (500, 1)
        assert 0.2 < float(one.min()) < float(one.max()) < 1.4

    def test_a_step_that_does_not_divide_1(self) -> None:
        with pytest.raises(OptionError, match="multiple of step"):
            mackey_glass(10, step=0.3)


def test_lorenz_is_what_another_integrator_says() -> None:
    rows = lorenz(60, seed=2)

    def slope(_: float, v: list[float]) -> list[float]:
        x, y, z = v
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    times = [0.02 * k for k in range(60)]
    other = solve_ivp(slope, (0, times[-1]), rows[0].tolist(), "DOP853", times, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rows, torch.from_numpy(other.y.T.copy()), rtol=0, atol=1e-6)


def test_narma_follows_its_recursion() -> None:
    u, y = narma(300, seed=4)
    assert u.shape == y.shape == (300, 1)
    assert 0 <= float(u.min()) <= float(u.max()) <= 0.5
    for t in range(20, 299):
        past = y[t - 10 : t, 0]  # row t is the value that u of row t has just made
        wanted = 0.3 * past[-1] + 0.05 * past[-1] * past.sum() + 1.5 * u[t, 0] * u[t - 9, 0] + 0.1
        assert float(y[t, 0]) == pytest.approx(float(wanted), abs=1e-12)


def test_sines_have_their_frequencies() -> None:
    wave = sines(5000, seed=1, count=3)[:, 0]
    spectrum = torch.fft.rfft(wave * torch.hann_window(5000, dtype=wave.dtype)).abs()
    for frequency in FREQUENCIES[:3]:
        place = round(frequency * 5000 / (2 * math.pi))
        assert float(spectrum[place - 2 : place + 3].max()) > 500
    assert float(spectrum[round(FREQUENCIES[3] * 5000 / (2 * math.pi))]) < 1
    with pytest.raises(OptionError, match="count"):
        sines(10, count=9)


@pytest.mark.parametrize("task", [mackey_glass, lorenz, narma, sines])
def test_no_steps_are_refused(task) -> None:
    with pytest.raises(OptionError, match="length must be at least 1"):
        task(0)
