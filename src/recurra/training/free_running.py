"""How well a network forecasts: it runs free from many places of a series that it has not learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import DataError
from recurra.models.reservoir import EchoState, States, join
from recurra.types import Float, Int


@dataclass(frozen=True, eq=False)
class Forecasts:
    """What was predicted and what was true from each start on, and the variance of each column over the part of the series."""

    predicted: Float[Tensor, "S K C"]
    true: Float[Tensor, "S K C"]
    last: Float[Tensor, "S C"]
    variance: Float[Tensor, " C"]

    def nrmse(self, step: int) -> float:
        """√(mean over starts and columns of (ŷ − y)² / variance), `step` steps after the last known value."""
        return _nrmse(self.predicted[:, step - 1], self.true[:, step - 1], self.variance)

    def persistence(self, step: int) -> float:
        """The same of saying the last known value again."""
        return _nrmse(self.last, self.true[:, step - 1], self.variance)


@dataclass(frozen=True, eq=False)
class Places:
    """Where forecasts start: the last known value of each, and the states that the network has reached there.

    They do not depend on the readout, so that several can be compared from the same places.
    """

    values: Float[Tensor, "T C"]
    begin: int
    horizon: int
    at: Int[Tensor, " S"]
    states: States

    def forecasts(self, model: EchoState) -> Forecasts:
        """At each place a copy of the network runs on by itself."""
        predicted = model.run_free(self.horizon, self.states, self.values[self.at]).cpu()
        true = torch.stack([self.values[self.at + k] for k in range(1, self.horizon + 1)], dim=1)
        return Forecasts(predicted, true, self.values[self.at], self.values[self.begin :].var(0))


def reach_places(
    model: EchoState, values: Float[Tensor, "T C"], begin: int, *, washout: int, horizon: int, starts: int
) -> Places:
    """Places that are spread evenly over `values[begin:]`, each with `horizon` steps after it.

    The network reads the true series from `washout` steps before the first of them on, once.
    """
    room = len(values) - begin - horizon
    if room < 1:
        raise DataError(
            f"a part of {len(values) - begin} steps has no room for forecasts of {horizon} (training.horizon). "
            "Give more data, a larger share or a shorter horizon."
        )
    places = sorted({begin + room * k // starts for k in range(starts)})
    known = max(0, places[0] - washout)
    places = [place for place in places if place > known]  # one value must come before it, for a step to be made
    if not places:
        raise DataError(f"forecasts of {horizon} steps need at least two known values before them. Give more data.")
    reached, states = [], None
    for place in places:
        states, _ = model.warm_up(values[None, known : place + 1], states=states)
        reached.append(states)
        known = place
    return Places(values, begin, horizon, torch.tensor(places), join(reached))


def _nrmse(predicted: Tensor, true: Tensor, variance: Tensor) -> float:
    error = float(((predicted - true).square() / variance).mean().sqrt())
    return math.inf if math.isnan(error) else error  # it has run away
