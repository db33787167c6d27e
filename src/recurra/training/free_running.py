"""How well a network forecasts: it runs free from many places of a series that it has not learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import DataError
from recurra.models.reservoir import EchoState, join
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What was said and what was true from each start on, and the variance of each column over the part of the series."""

    said: Float[Tensor, "S K C"]
    true: Float[Tensor, "S K C"]
    last: Float[Tensor, "S C"]
    variance: Float[Tensor, " C"]

    def nrmse(self, step: int) -> float:
        """√(mean over starts and columns of (ŷ − y)² / variance), `step` steps after the last known value."""
        return _nrmse(self.said[:, step - 1], self.true[:, step - 1], self.variance)

    def persistence(self, step: int) -> float:
        """The same of saying the last known value again."""
        return _nrmse(self.last, self.true[:, step - 1], self.variance)


def forecast_from_many(
    model: EchoState, values: Float[Tensor, "T C"], begin: int, *, washout: int, horizon: int, starts: int
) -> Forecasts:
    """Forecasts of `horizon` steps from places that are spread evenly over `values[begin:]`.

    The network reads the true series from `washout` steps before the first of them on, once; at each place a copy of its state
    runs on by itself.
    """
    room = len(values) - begin - horizon
    if room < 1:
        raise DataError(
            f"a part of {len(values) - begin} steps has no room for forecasts of {horizon} (training.horizon). "
            "Give more data, a larger share or a shorter horizon."
        )
    places = sorted({begin + room * k // starts for k in range(starts)})  # of the last value that is known
    reached, states = [], None
    known = max(0, places[0] - washout)
    if known == places[0]:  # nothing comes before the first place: it is known by itself
        places = places[1:] if len(places) > 1 else places
    for place in places:
        states, _ = model.warm_up(values[None, known : place + 1], states=states)
        reached.append(states)
        known = place
    at = torch.tensor(places)
    said = model.run_free(horizon, join(reached), values[at]).cpu()
    true = torch.stack([values[at + k] for k in range(1, horizon + 1)], dim=1)
    return Forecasts(said, true, values[at], values[begin:].var(0))


def _nrmse(said: Tensor, true: Tensor, variance: Tensor) -> float:
    return float(((said - true).square() / variance).mean().sqrt())
