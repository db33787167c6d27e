"""How well forecasts do: from many origins in a part of the series that was not learned, beside what came true.

The origin rolls on; from each, all that came before is known and nothing after. Forecasts are draws of trajectories, so that
every method is evaluated alike: by its median, its mean, its whole distribution and its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from recurra.errors import DataError
from recurra.types import Float, Int

AT_ONCE = 16
"""How many origins are forecast side by side; what is found does not depend on it."""
FEWEST = 3
"""Forecasts that do not overlap, from which on a deviation says something."""


class RunsFree(Protocol):
    """What can draw how series go on."""

    def run_free(self, known: Float[Tensor, "B T C"], noise: Float[Tensor, "S K C"]) -> Float[Tensor, "B S K C"]: ...


@dataclass(frozen=True, eq=False)
class Rolling:
    """Origins in a series: each is the last row that is known, and the `horizon` rows after it are foretold from `window` rows.

    - `noise`: uniform numbers `[S, K, C]`; every origin and every method draws with the same.
    """

    values: Float[Tensor, "T C"]
    origins: Int[Tensor, " O"]
    horizon: int
    window: int
    noise: Float[Tensor, "S K C"]

    @property
    def true(self) -> Float[Tensor, "O K C"]:
        return self.values[self.origins[:, None] + torch.arange(1, self.horizon + 1)]

    def forecast(self, model: RunsFree) -> Float[Tensor, "O S K C"]:
        """The paths that a model draws from every origin."""
        parts = [model.run_free(self._known(origins), self.noise) for origins in self.origins.split(AT_ONCE)]
        return torch.cat(parts).double().cpu()

    def errors(self, model: RunsFree) -> Float[Tensor, " N"]:
        """The absolute error of the median from each origin with true values; infinite where the forecast is not a number."""
        true = self.true
        found = (self.forecast(model).median(1).values - true).abs()
        found = torch.where(true.isnan(), torch.nan, found.nan_to_num(torch.inf, torch.inf)).flatten(1).nanmean(1)
        return found[~found.isnan()]

    def _known(self, origins: Int[Tensor, " B"]) -> Float[Tensor, "B W C"]:
        return self.values[origins[:, None] + torch.arange(1 - self.window, 1)]


def standard_error(values: Float[Tensor, " N"], parts: Sequence[Rolling]) -> float:
    """Of the mean of a number from each origin of some parts. Forecasts that overlap are of the same steps: only so many count as
    fit side by side, n, and their deviation is too small by √((n − 1) / n). Of fewer than `FEWEST` nothing is known."""
    side_by_side = sum(1 + float(each.origins[-1] - each.origins[0]) / each.horizon for each in parts)
    count = min(len(values), side_by_side)
    return float(values.std()) / math.sqrt(count - 1) if count >= FEWEST else math.inf


def roll(
    values: Float[Tensor, "T C"], begin: int, *, horizon: int, window: int, origins: int, samples: int, seed: int
) -> Rolling:
    """At most `origins` of them, spread evenly, from the last row before `begin` to the last one that leaves room.

    ```python
    rolling = rc.training.roll(rc.data.sines(300), 200, horizon=12, window=50, origins=5, samples=20, seed=0)
    ```
    """
    first, last = max(begin, window) - 1, len(values) - horizon - 1
    if last < first:
        raise DataError(
            f"{max(0, len(values) - first - 1):,} steps are left to judge by, fewer than the horizon of {horizon:,}. "
            "Give a longer series, a larger share, or a shorter backtest.horizon."
        )
    count = min(origins, last - first + 1)
    places = first + (torch.arange(count) * (last - first)) // max(1, count - 1)
    return Rolling(values, places, horizon, window, draw_noise(samples, horizon, values.shape[1], seed))


def draw_noise(samples: int, steps: int, channels: int, seed: int) -> Float[Tensor, "S K C"]:
    """Uniform numbers in (0, 1), in double precision: one is never 0, where a normal number would be without end."""
    random = torch.Generator().manual_seed(seed)
    drawn = torch.rand(samples, steps, channels, generator=random, dtype=torch.float64)
    return drawn.clamp_(1e-9, 1 - 1e-9)


def score_paths(paths: Float[Tensor, "O S K C"], true: Float[Tensor, "O K C"], level: float = 0.9) -> dict[str, float]:
    """Scores of forecasts, over all origins, steps and channels that are known.

    - `mae`: of the median. `rmse`: of the mean.
    - `crps`: E|X − y| − ½ E|X − X′| of independent draws X, X′: the absolute error of a whole distribution. Gneiting &
      Raftery 2007.
    - how often the truth lies in the interval that has `level` of the draws in its middle.

    ```python
    rolling = rc.training.roll(rc.data.sines(300), 200, horizon=12, window=50, origins=5, samples=20, seed=0)
    model = rc.models.Autoregression.fit(rc.data.sines(300)[:200], 5)
    rc.training.score_paths(rolling.forecast(model), rolling.true)
    ```
    """
    S = paths.shape[1]
    ordered = paths.sort(dim=1).values
    spread = 2 * torch.arange(1, S + 1, dtype=paths.dtype) - S - 1
    apart = torch.einsum("s,oskc->okc", spread, ordered) / max(1, S * (S - 1))  # ½ E|X − X′|, of different draws
    crps = (paths - true[:, None]).abs().mean(1) - apart
    low, high = _middle(ordered, level)
    inside = torch.where(true.isnan(), torch.nan, ((true >= low) & (true <= high)).to(paths.dtype))
    return {
        "mae": float((paths.median(1).values - true).abs().nanmean()),
        "rmse": float((paths.mean(1) - true).square().nanmean().sqrt()),
        "crps": float(crps.nanmean()),
        f"{level:.0%} covered": float(inside.nanmean()),
    }


def interval(paths: Float[Tensor, "O S K C"], level: float) -> tuple[Float[Tensor, "O K C"], Float[Tensor, "O K C"]]:
    """Between which values the middle `level` of the draws lies."""
    return _middle(paths.sort(dim=1).values, level)


def _middle(ordered: Float[Tensor, "O S K C"], level: float) -> tuple[Tensor, Tensor]:
    """Quantiles of draws in order, between two of them in a line; torch's own refuses tensors that are large."""
    last = ordered.shape[1] - 1
    places = [last * (1 - level) / 2, last * (1 + level) / 2]
    low, high = (ordered[:, int(at)].lerp(ordered[:, min(int(at) + 1, last)], at % 1) for at in places)
    return low, high
