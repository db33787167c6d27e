"""What a forecast has to beat: the last value again, the value a season ago, and linear autoregression by least squares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from recurra.data.series import filled
from recurra.errors import OptionError, listed
from recurra.types import Float, Int

ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Of autoregressions to choose from, besides the season."""
PEAK = 0.3
"""How much of itself a series must find a season ago."""
SEASONS, ORIGINS = 6, 32
"""How many seasons exponential smoothing reads at most, and from how many places it is chosen."""
RIDGE = 3.0
"""How strongly the coefficients of a long autoregression are drawn to 0: as by so many steps of the series' own variance."""
TINY = 1e-6
"""The same for every other one: without it, channels that are nearly alike get huge coefficients that cancel each other."""
SMOOTHED = [
    (level, slope * max(level, 0.1), season * (1 - level), damping)
    for level in (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
    for season in (0.0, 0.1, 0.3)
    for slope, damping in ((0.0, 0.0), (0.03, 1.0), (0.1, 1.0), (0.1, 0.9))
]
"""Of exponential smoothing, to choose from: how fast level, slope and season follow what they missed, and the slope's damping."""


class Autoregression:
    """y_t = c + Σ_k A_k y_{t−k} + e_t, with normal errors of a standard deviation for each channel.

    - `lags`: which k there are; `matrices`: A_k of each. Values that are missing are read as the last known ones.

    ```python
    series = rc.data.sines(300)
    model = rc.models.Autoregression.fit(series, order=4)
    paths = model.run_free(series[None], torch.rand(200, 24, 1, dtype=torch.float64))     # [1, 200, 24, 1]
    ```
    """

    def __init__(
        self,
        lags: Iterable[int],
        matrices: Float[Tensor, "K C C"],
        constant: Float[Tensor, " C"],
        values: Float[Tensor, "T C"],
    ):
        self.lags, self.matrices, self.constant = tuple(lags), matrices, constant
        self.scale = self.errors(values).square().nanmean(0).sqrt()

    @classmethod
    def fit(cls, values: Float[Tensor, "T C"], order: int, *, change: int = 0, ridge: float = TINY) -> Autoregression:
        """By least squares on all steps whose values are known.

        - `change`: of changes from so many steps before, which is an autoregression of values too; 0: of values.
        - `ridge`: the penalty on squared coefficients, for values of variance 1.
        """
        values = values.double()
        if change:
            changes = values[change:] - values[:-change]
            return cls._summed(cls.fit(changes, order, ridge=ridge), change, values)
        lags, C = range(1, order + 1), values.shape[1]
        x, y = _before(filled(values), lags), values[order:]
        known = ~y.isnan().any(-1)
        rows = torch.cat([torch.ones(len(x), 1, dtype=x.dtype), x.flatten(1)], dim=1)[known]
        y = y[known]
        size = filled(values).std(0).repeat(order) * math.sqrt(ridge)
        rows = torch.cat([rows, torch.nn.functional.pad(size.diag(), (1, 0))])
        y = torch.cat([y, y.new_zeros(len(size), C)])
        found = torch.linalg.lstsq(rows, y, driver="gelsd").solution
        return cls(lags, found[1:].view(order, C, C).transpose(1, 2), found[0], values)

    @classmethod
    def _summed(cls, of_changes: Autoregression, change: int, values: Float[Tensor, "T C"]) -> Autoregression:
        """y_t = y_{t−s} + c + Σ B_k (y_{t−k} − y_{t−s−k}), with its lags put together."""
        terms = [(change, torch.eye(values.shape[1], dtype=torch.float64))]
        for lag, matrix in zip(of_changes.lags, of_changes.matrices, strict=True):
            terms += [(lag, matrix), (lag + change, -matrix)]
        return cls(*_together(terms), of_changes.constant, values)

    @classmethod
    def mean(cls, models: Sequence[Autoregression], values: Float[Tensor, "T C"]) -> Autoregression:
        """The mean of what several models predict one step ahead, which is an autoregression too.

        ```python
        series = rc.data.sines(300)
        several = [rc.models.Autoregression.fit(series, order) for order in (2, 4)]
        rc.models.Autoregression.mean(several, series).lags                # (1, 2, 3, 4)
        ```
        """
        terms = [
            (lag, matrix / len(models)) for each in models for lag, matrix in zip(each.lags, each.matrices, strict=True)
        ]
        return cls(*_together(terms), torch.stack([each.constant for each in models]).mean(0), values.double())

    @classmethod
    def repeat(cls, values: Float[Tensor, "T C"], lag: int = 1) -> Autoregression:
        """The value of `lag` steps ago again: naive, or seasonal naive."""
        C = values.shape[1]
        one = torch.eye(C, dtype=torch.float64)
        return cls((lag,), one[None], torch.zeros(C, dtype=torch.float64), values.double())

    @classmethod
    def smooth(cls, values: Float[Tensor, "T C"], season: int, *, order: int, horizon: int = 1) -> Autoregression:
        """Exponential smoothing of level, slope and season (Holt 1957, Winters 1960), which starts anew `order` steps back: its
        prediction is linear in these. Each channel takes the parameters of `SMOOTHED` with the smallest absolute error over
        `horizon` steps."""
        values = values.double()
        T, C = values.shape
        weights = _smoothing_weights(season, order)
        last = torch.linspace(order - 1, T - horizon - 1, min(ORIGINS, T - horizon - order)).long()
        line, ahead = filled(values), torch.arange(1, horizon + 1)
        matrices = torch.zeros(order, C, C, dtype=torch.float64)
        for c in range(C):
            past = line[last[:, None] + torch.arange(1 - order, 1), c].expand(len(weights), -1, -1)
            for _ in ahead:
                past = torch.cat([past, past[..., -order:] @ weights.flip(1)[:, :, None]], dim=-1)
            off = (past[..., order:] - values[last[:, None] + ahead, c]).abs().nanmean((1, 2))
            matrices[:, c, c] = weights[off.argmin()]
        return cls(range(1, order + 1), matrices, torch.zeros(C, dtype=torch.float64), values)

    @property
    def order(self) -> int:
        return self.lags[-1]

    def errors(self, values: Float[Tensor, "T C"]) -> Float[Tensor, "N C"]:
        """How far off each step is that has enough steps before it; NaN where it is missing."""
        return values[self.order :] - self._say(_before(filled(values), self.lags))

    def run_free(self, known: Float[Tensor, "B T C"], noise: Float[Tensor, "S K C"]) -> Float[Tensor, "B S K C"]:
        """K steps that follow each of some series, drawn S times from uniform numbers, as a `Forecaster` does it."""
        (B, _, C), (S, K, _) = known.shape, noise.shape
        past = filled(known.double(), 1).transpose(0, 1)[-self.order :]
        path = past[:, :, None].expand(-1, -1, S, -1).reshape(len(past), B * S, C)
        shocks = (torch.special.ndtri(noise.double()) * self.scale).repeat(B, 1, 1)
        for k in range(K):
            before = torch.stack([path[-lag] for lag in self.lags], dim=1)
            path = torch.cat([path, (self._say(before) + shocks[:, k])[None]])
        return path[len(past) :].transpose(0, 1).reshape(B, S, K, C)

    def _say(self, before: Float[Tensor, "N K C"]) -> Float[Tensor, "N C"]:
        return self.constant + torch.einsum("nkc,kdc->nd", before, self.matrices)


class LinearPast(nn.Module):
    """The prediction of an `Autoregression` at every step of a batch, its numbers as buffers: a baseline inside a network.

    What it remembers from call to call is `past [B, K, C + 1]`: the last K values, and whether each is of the series at all.

    - `lags`: which steps back count. `least`, `most`: between which values each channel was, as far as is known.

    ```python
    series = rc.data.sines(300)
    linear = rc.models.LinearPast((1, 2, 3, 4), 1).fill(rc.models.Autoregression.fit(series, order=4), series)
    predicted, past = linear(series[None, :50].float())                               # [1, 50, 1], [1, 4, 2]
    ```
    """

    matrices: Tensor
    constant: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, lags: Sequence[int], channels: int):
        super().__init__()
        self.lags, self.channels = tuple(lags), channels
        if not self.lags or self.lags[0] < 1 or list(self.lags) != sorted(set(self.lags)):
            raise OptionError(f"lags are whole numbers from 1 on, each above the one before; they are {listed(lags)}.")
        self.register_buffer("matrices", torch.zeros(len(self.lags), channels, channels))
        for name in ("constant", "least", "most"):
            self.register_buffer(name, torch.zeros(channels))

    def fill(self, fitted: Autoregression, values: Float[Tensor, "T C"]) -> LinearPast:
        """Take over the coefficients of a model with the same lags, and the range of the values that are known."""
        self.matrices.copy_(fitted.matrices)
        self.constant.copy_(fitted.constant)
        self.least.copy_(values.nan_to_num(torch.inf).amin(0))
        self.most.copy_(values.nan_to_num(-torch.inf).amax(0))
        return self

    @property
    def order(self) -> int:
        return self.lags[-1]

    def initial(self, batch_size: int) -> Float[Tensor, "B K D"]:
        """Nothing is remembered."""
        return self.constant.new_zeros(batch_size, self.order, self.channels + 1)

    def forward(
        self,
        inputs: Float[Tensor, "B T C"],
        past: Float[Tensor, "B K D"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B K D"]]:
        """The value after each step; before `order` steps are known, the last value again."""
        B, T, C = inputs.shape
        past = self.initial(B) if past is None else past
        line = filled(torch.cat([past[..., :C].to(inputs), inputs], dim=1), 1)
        known = torch.cat([past[..., C], past.new_ones(B, T)], dim=1)
        predicted = self.constant.to(inputs).expand(B, T, C)
        for lag, matrix in zip(self.lags, self.matrices.to(inputs), strict=True):
            before = line[:, self.order + 1 - lag : self.order + 1 - lag + T]
            for c in range(C):  # one product after the other: the same bits for any batch
                predicted = predicted + before[..., c : c + 1] * matrix[:, c]
        predicted = torch.where(known[:, 1 : 1 + T, None] > 0, predicted, line[:, self.order :])
        both = torch.cat([line.to(past), known[..., None]], dim=-1)
        if lengths is None:
            return predicted, both[:, T:]
        rows = lengths.to(inputs.device)[:, None] + torch.arange(self.order, device=inputs.device)
        return predicted, both.gather(1, rows[..., None].expand(-1, -1, C + 1))


def best_autoregression(
    learned: Float[Tensor, "T C"],
    following: Float[Tensor, "N C"],
    season: int | None,
    *,
    most: int,
    change: int = 0,
) -> Autoregression:
    """Of several orders up to `most`, the one with the smallest squared error one step ahead in what follows.

    - `change`: of changes from so many steps before, as for `Autoregression.fit`.
    """
    C, T = learned.shape[1], len(learned)
    asked = {*ORDERS, season or 1, (season or 0) + 1}
    orders = {n for n in asked if n + change <= most and (n * C + 1) * 3 <= T - n - change} or {1}
    together = torch.cat([learned, following]).double()

    def error(model: Autoregression) -> float:
        return float(model.errors(together[T - model.order :]).square().nanmean())

    return min((Autoregression.fit(learned, order, change=change) for order in sorted(orders)), key=error)


def baselines_of(
    learned: Float[Tensor, "T C"],
    following: Float[Tensor, "N C"],
    season: int | None,
    *,
    most: int,
    horizon: int = 1,
) -> dict[str, Autoregression]:
    """What a forecast has to beat, by name: naive, seasonal naive, autoregressions of values, changes and seasonal changes, a
    long one with small coefficients, and exponential smoothing where there is a season.

    Orders of the first three autoregressions are the best one step ahead in what follows; no lag is above `most`.

    - `horizon`: how many steps ahead smoothing is chosen for.
    """
    T = len(learned)
    seasonal = season is not None and season <= most
    found = {"naive": Autoregression.repeat(learned)}
    if seasonal:
        found[f"seasonal naive, {season}"] = Autoregression.repeat(learned, season or 1)
    auto = best_autoregression(learned, following, season, most=most)
    found[f"autoregression of order {auto.order}"] = auto
    for change, of in ((1, "changes"), (season or 0, "seasonal changes")):
        if 1 <= change < min(most, T // 4) and (change == 1 or seasonal):
            auto = best_autoregression(learned, following, season, most=most, change=change)
            found[f"autoregression of {of}, order {auto.order - change}"] = auto
    order = min(most, T // 4, 2 * (season or 12) + 1, T // (3 * learned.shape[1]) - 1)  # of many channels, few lags
    if order > 1:
        found[f"ridge autoregression of order {order}"] = Autoregression.fit(learned, order, ridge=RIDGE)
    order = min(most, SEASONS * (season or 0))
    if season is not None and 2 * season <= order < T - horizon - season:
        found[f"exponential smoothing, {season}"] = Autoregression.smooth(learned, season, order=order, horizon=horizon)
    return found


def kind_of(name: str) -> str:
    """The name of a baseline without what differs from series to series: its order, its season."""
    return re.sub(r",? (of order |order )?\d+$", "", name)


def find_season(values: Float[Tensor, "T C"]) -> int | None:
    """The lag at which the series is most like itself, after a straight line is taken out; `None` if it is at none.

    A multiple of the season is as good as the season itself: of lags nearly as good as the best, the shortest peak counts.

    ```python
    rc.models.find_season(torch.sin(torch.arange(200.0) * 2 * torch.pi / 12)[:, None])  # 12
    ```
    """
    T = len(values)
    y = filled(values.double())
    t = torch.linspace(-1, 1, T, dtype=y.dtype)[:, None]
    y = y - y.mean(0)
    y = y - t * ((t * y).sum(0) / t.square().sum())
    size = 2 * T
    power = torch.fft.rfft(y, size, dim=0).abs().square()
    alike = torch.fft.irfft(power, size, dim=0)[: T // 3]
    if len(alike) < 4:
        return None
    overlap = (T - torch.arange(len(alike), dtype=y.dtype))[:, None] / T
    found = (alike / (alike[0].clamp(min=1e-300) * overlap)).mean(1)
    peaks = [k for k in range(2, len(found) - 1) if found[k] > found[k - 1] and found[k] >= found[k + 1]]
    best = max((float(found[k]) for k in peaks), default=0.0)
    return next((k for k in peaks if float(found[k]) >= 0.9 * best), None) if best > PEAK else None


def _before(values: Float[Tensor, "T C"], lags: Iterable[int]) -> Float[Tensor, "N K C"]:
    """For each step with enough before it, the values at some lags."""
    lags = list(lags)
    return torch.stack([values[lags[-1] - lag : len(values) - lag] for lag in lags], dim=1)


def _together(terms: Iterable[tuple[int, Float[Tensor, "C C"]]]) -> tuple[list[int], Float[Tensor, "K C C"]]:
    """Lags in their order, and of each the sum of its matrices."""
    found: dict[int, Tensor] = {}
    for lag, matrix in terms:
        found[lag] = found[lag] + matrix if lag in found else matrix
    lags = sorted(found)
    return lags, torch.stack([found[lag] for lag in lags])


def _smoothing_weights(season: int, order: int) -> Float[Tensor, "P K"]:
    """For each of `SMOOTHED`, the weight of each of the last values in the next prediction, the newest first: the recursion is
    run on unit vectors. It begins with the mean of the first season, and the slope from there to the second."""
    follows, slopes, seasons, damping = (column[:, None] for column in torch.tensor(SMOOTHED, dtype=torch.float64).T)
    values = torch.eye(order, dtype=torch.float64)
    middle = values[:season].mean(0)
    slope = damping * (values[season : 2 * season].mean(0) - middle) / season
    level = middle + slope * (season - 1) / 2
    turn = [values[k] - middle - slope * (k - (season - 1) / 2) for k in range(season)]
    for t in range(season, order):
        missed = values[t] - (level + damping * slope + turn[t % season])
        level = level + damping * slope + follows * missed
        slope = damping * slope + slopes * missed
        turn[t % season] = turn[t % season] + seasons * missed
    weights: Tensor = (level + damping * slope + turn[order % season]).flip(1)
    return weights
