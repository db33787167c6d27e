"""Synthetic series of many kinds: what a default has to do well on before anybody has tuned it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.data.series_tasks import mackey_glass
from recurra.data.tasks import check_sizes
from recurra.types import Float


def synthetic_series(
    length: int = 1000,
    seed: int = 0,
    *,
    channels: int = 1,
    trend: float = 0.0,
    periods: tuple[int, ...] = (),
    past: tuple[float, ...] = (),
    shifts: float = 0.0,
    growth: float = 0.0,
    chaos: bool = False,
    counts: bool = False,
    noise: float = 0.3,
    gaps: float = 0.0,
) -> Float[Tensor, "T C"]:
    """A series put together of parts. Channels differ in their phases and noise, and each follows the one before a step later.

    - `trend`: what is added over the whole length. `periods`: of seasons, each a sharp peak and a trough; with two or more, the
      longer ones change how high the first one peaks. `past`: coefficients of the noise's own past values (autoregression).
    - `shifts`: the chance of a step that the level jumps for good. `growth`: the series is multiplied by e to that at its end.
    - `chaos`: the Mackey-Glass series is added. `counts`: rare small whole numbers, the series their intensity.
    - `noise`: the size of its shocks. `gaps`: the share of values that are missing, some alone and some in runs.

    ```python
    rc.data.synthetic_series(500, periods=(24, 168), gaps=0.05)        # [500, 1], NaN where a value is missing
    ```
    """
    check_sizes("synthetic_series", length=(length, 2), channels=(channels, 1))
    random = np.random.default_rng(seed % 2**64)
    t = np.arange(length)
    columns: list[Any] = []
    for channel in range(channels):
        level = trend * t / length + np.cumsum((random.random(length) < shifts) * random.normal(0, 3, length))
        height = np.ones(length)
        for k, period in reversed(list(enumerate(periods))):
            turn = 2 * np.pi * (t / period + random.random())
            wave = np.exp(1.5 * (np.cos(turn) - 1)) - 0.5 + 0.3 * np.sin(2 * turn)
            height, level = (height, level + 2 * height * wave) if k == 0 else (height + 0.5 * wave, level)
        shock, own = random.normal(0, noise, length), np.zeros(length + len(past))
        for step in range(length):
            own[step + len(past)] = shock[step] + sum(a * own[step + len(past) - 1 - k] for k, a in enumerate(past))
        values = level + own[len(past) :]
        if chaos:
            values = values + 3 * mackey_glass(length, seed + channel)[:, 0].numpy()
        if growth:
            values = np.exp(growth * t / length + 0.3 * values)
        if counts:
            values = random.poisson(np.exp(0.7 * values - 1.5)).astype(float)
        if columns:
            values = values + 0.8 * np.concatenate([columns[-1][:1], columns[-1][:-1]])
        columns.append(values)
    made = np.stack(columns, 1)
    if gaps:
        made[random.random(made.shape) < gaps / 2] = np.nan
        for _ in range(max(1, round(length * gaps / 2 / 12))):
            begin = int(random.integers(length))
            made[begin : begin + 12, int(random.integers(channels))] = np.nan
    return torch.from_numpy(made)


SERIES: dict[str, dict[str, Any]] = {
    "short season": {"length": 160, "periods": (12,), "trend": 2.0},
    "growing": {"length": 200, "periods": (12,), "growth": 2.0, "noise": 0.2},
    "trend": {"length": 500, "trend": 10.0, "past": (0.6,)},
    "one season": {"length": 1000, "periods": (24,), "past": (0.5,)},
    "two seasons": {"length": 3000, "periods": (24, 168), "past": (0.7,)},
    "gaps": {"length": 3000, "periods": (24, 168), "past": (0.7,), "gaps": 0.1},
    "level shifts": {"length": 1500, "periods": (24,), "shifts": 0.01},
    "autoregressive": {"length": 1000, "past": (1.2, -0.5), "noise": 1.0},
    "random walk": {"length": 1000, "past": (1.0,), "noise": 1.0},
    "counts": {"length": 1500, "periods": (24,), "counts": True},
    "three channels": {"length": 1500, "channels": 3, "periods": (24,), "past": (0.6,)},
    "chaos": {"length": 3000, "chaos": True, "noise": 0.02},
    "long": {"length": 12000, "periods": (24, 168), "past": (0.8,), "trend": 3.0},
}
"""Kinds of series by name: the arguments of `synthetic_series`."""
