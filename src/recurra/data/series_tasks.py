"""Synthetic series: chaos to forecast (Mackey-Glass, Lorenz), sines, days and weeks, a filter to imitate (NARMA)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from recurra.data.tasks import check_sizes
from recurra.errors import OptionError
from recurra.types import Float

FREQUENCIES = (0.2, 0.311, 0.42, 0.51, 0.63, 0.74, 0.85, 0.97)
"""Of the sines, in radians a step: no two have a common period. Jaeger & Haas 2004; Xue et al. 2007."""


def mackey_glass(length: int, seed: int = 0, delay: int = 17, step: float = 0.1) -> Float[Tensor, "T 1"]:
    """dy/dt = 0.2 y(t − τ) / (1 + y(t − τ)¹⁰) − 0.1 y(t), one value for each unit of time; mildly chaotic at τ = 17.

    Runge-Kutta of order 4 with steps of `step` (1 and the delay must be multiples of it); half a step back the delayed value
    is Hermite's cubic through its two neighbours and their slopes, which is of order 4 too. The history before time 0 is a
    constant, drawn from [1, 1.4]; the first 1000 values are dropped. Mackey & Glass 1977.

    ```python
    rc.data.mackey_glass(100)                                       # [100, 1]
    ```
    """
    check_sizes("mackey_glass", length=(length, 1), delay=(delay, 1))
    per, lag = round(1 / step), round(delay / step)
    if not math.isclose(per * step, 1):
        raise OptionError(f"mackey_glass: 1 must be a multiple of step; got {step}.")
    y = float(np.random.default_rng(seed % 2**64).uniform(1.0, 1.4))

    def slope(now: float, delayed: float) -> float:
        return 0.2 * delayed / (1 + delayed**10) - 0.1 * now

    values, slopes = [y] * (lag + 1), [0.0] * lag + [slope(y, y)]
    for k in range((length + 1000) * per):
        before, after = values[k], values[k + 1]
        ending = slopes[k + 1] if k + 1 != lag else 0.0  # at time 0 the slope jumps: the constant comes to it with 0
        middle = (before + after) / 2 + step * (slopes[k] - ending) / 8
        k1 = slope(y, before)
        k2 = slope(y + step / 2 * k1, middle)
        k3 = slope(y + step / 2 * k2, middle)
        y += step / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + step * k3, after))
        values.append(y)
        slopes.append(slope(y, after))
    return torch.tensor(values[lag + 1000 * per :: per][:length], dtype=torch.float64)[:, None]


def lorenz(length: int, seed: int = 0, interval: float = 0.02) -> Float[Tensor, "T 3"]:
    """x' = 10 (y − x), y' = x (28 − z) − y, z' = x y − 8/3 z, one row for each `interval` of time.

    Runge-Kutta of order 4 with ten steps to a row, from a point drawn near (1, 1, 25); the first 500 rows are dropped.
    Lorenz 1963.

    ```python
    rc.data.lorenz(500)                                             # [500, 3]
    ```
    """
    check_sizes("lorenz", length=(length, 1))
    x, y, z = (np.array([1.0, 1.0, 25.0]) + np.random.default_rng(seed % 2**64).uniform(-1, 1, 3)).tolist()
    h = interval / 10

    def slope(x: float, y: float, z: float) -> tuple[float, float, float]:
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    rows = []
    for _ in range(length + 500):
        rows.append((x, y, z))
        for _ in range(10):
            a, b, c = slope(x, y, z)
            d, e, f = slope(x + h / 2 * a, y + h / 2 * b, z + h / 2 * c)
            g, i, j = slope(x + h / 2 * d, y + h / 2 * e, z + h / 2 * f)
            k, m, n = slope(x + h * g, y + h * i, z + h * j)
            x, y, z = (
                x + h / 6 * (a + 2 * d + 2 * g + k),
                y + h / 6 * (b + 2 * e + 2 * i + m),
                z + h / 6 * (c + 2 * f + 2 * j + n),
            )
    return torch.tensor(rows[500:], dtype=torch.float64)


def narma(length: int, seed: int = 0, order: int = 10) -> tuple[Float[Tensor, "T 1"], Float[Tensor, "T 1"]]:
    """Inputs u, uniform in [0, 0.5], and y(t+1) = 0.3 y(t) + 0.05 y(t) Σ y(t−i) + 1.5 u(t) u(t−order+1) + 0.1, i < order.

    Row t of the targets is y(t+1), the value that has just become known. The rare draw that runs away is drawn again.
    Atiya & Parlos 2000.

    ```python
    u, y = rc.data.narma(200)
    ```
    """
    check_sizes("narma", length=(length, 1), order=(order, 1))
    random = np.random.default_rng(seed % 2**64)
    for _ in range(100):
        u = random.uniform(0, 0.5, length + order)
        y = np.zeros(length + order)
        for t in range(order - 1, length + order - 1):
            window = y[t - order + 1 : t + 1].sum()
            y[t + 1] = min(0.3 * y[t] + 0.05 * y[t] * window + 1.5 * u[t] * u[t - order + 1] + 0.1, 10.0)
        if y.max() < 1:
            return torch.from_numpy(u[order - 1 : -1, None].copy()), torch.from_numpy(y[order:, None].copy())
    raise OptionError(f"narma of order {order} runs away over {length} steps. Ask for a lower order or fewer steps.")


def sines(length: int, seed: int = 0, count: int = 2) -> Float[Tensor, "T 1"]:
    """The sum of `count` sines (1 to 8), with phases drawn from the seed.

    ```python
    rc.data.sines(200, count=3)                                     # [200, 1]
    ```
    """
    check_sizes("sines", length=(length, 1))
    if not 1 <= count <= len(FREQUENCIES):
        raise OptionError(f"sines: count must lie between 1 and {len(FREQUENCIES)}; got {count}.")
    phases = np.random.default_rng(seed % 2**64).uniform(0, 2 * np.pi, count)
    waves = np.sin(np.outer(np.arange(length), FREQUENCIES[:count]) + phases)
    return torch.from_numpy(waves.sum(1, keepdims=True))


def seasons(length: int, seed: int = 0) -> Float[Tensor, "T 1"]:
    """A load by the hour: days whose peak is high on five days of seven, a slow drift, and noise that grows with the load.

    ```python
    rc.data.seasons(24 * 7)                                         # [168, 1]
    ```
    """
    check_sizes("seasons", length=(length, 1))
    random = np.random.default_rng(seed % 2**64)
    hour = np.arange(length)
    peak = np.exp(2 * (np.cos(2 * np.pi * (hour / 24 - 0.6)) - 1))
    level = 10 + (6 - 3 * (hour // 24 % 7 > 4)) * peak
    drift = np.zeros(length)
    for t, shock in enumerate(random.normal(size=length - 1), start=1):
        drift[t] = 0.99 * drift[t - 1] + 0.1 * shock
    return torch.from_numpy((level + drift + 0.04 * level * random.normal(size=length))[:, None])


TO_FORECAST: dict[str, Callable[[int, int], Tensor]] = {
    "mackey-glass": mackey_glass,
    "lorenz": lorenz,
    "sines": sines,
    "seasons": seasons,
}
"""Series that need no input, by name: a length and a seed to `[T, C]`."""
