"""A schedule that fits a time budget: measured on this machine as it goes, so that training ends with its schedule finished."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

VALIDATING = 0.2
"""The share of the budget that validations before the last one may take."""
MEMORY = 0.1
"""The share of the budget over which the pace is averaged: a machine may become busy, or free."""


class TimePlan:
    """How far each step has to go through the schedule so that it ends in time.

    A schedule is a way from 0 to `steps`. A step goes 1 along it where the time suffices, and further where it does not: learning
    rate, teacher forcing, averaging, validations and checkpoints all follow the place on the way, not the number of updates. So a
    run that is short of time makes fewer steps of the same schedule, and is not cut off in the middle of it.

    - `seconds`: the budget, from now on. `validate_every`: places between validations; fewer are made where they are slow.
    """

    def __init__(self, seconds: float, validate_every: int, clock: Callable[[], float] = time.monotonic):
        self.clock, self.seconds = clock, seconds
        self.ends = clock() + seconds
        self.stride = 1.0
        self.validate_every = validate_every
        self._seldom = 1  # every so many of the validations that were asked for
        self._validation = 0.0  # seconds of one
        self._marked: float | None = None
        self._steps = self._spent = 0.0  # of late

    def see(self, steps: int, left: float) -> None:
        """So many more steps were made, and so much of the way is left."""
        now = self.clock()
        if self._marked is not None:  # the first one compiles kernels and fills caches
            spent = now - self._marked
            fading = math.exp(-spent / max(1e-9, MEMORY * self.seconds))
            self._steps, self._spent = self._steps * fading + steps, self._spent * fading + spent
        self._marked = now
        remaining = self.ends - now
        if remaining <= 0:
            self.stride = max(1.0, left)
        elif self._steps:
            more = self._validation * (left // self.spacing)
            usable = remaining - self._validation - min(more, VALIDATING * remaining)
            possible = usable * self._steps / max(self._spent, 1e-9)
            self.stride = max(1.0, left / max(1.0, possible))

    def validated(self, seconds: float, steps: int) -> None:
        """A validation took so long; the whole way is `steps`."""
        self._validation = max(seconds, 1e-9)
        if self._marked is not None:
            self._marked += seconds  # it is no part of the pace of steps
        affordable = max(1.0, VALIDATING * self.seconds / self._validation)
        self._seldom = max(1, math.ceil(steps / self.validate_every / affordable))

    @property
    def spacing(self) -> int:
        """Places between validations that there is time for."""
        return self.validate_every * self._seldom
