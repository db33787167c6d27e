"""The learning rate over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

SCHEDULES = ("constant", "cosine", "plateau")


def learning_rate(schedule: str, step: float, steps: int, warmup: int, top: float) -> float:
    """A linear rise over `warmup` steps, then constant, or half a cosine down to a hundredth of the top at `steps`."""
    rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
    if schedule != "cosine":
        return top * rise
    done = min(1.0, max(0.0, (step - warmup) / max(1, steps - warmup)))
    return top * rise * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


@dataclass
class Plateau:
    """Halves the learning rate when validation has not improved for `wait` evaluations."""

    wait: int = 2
    factor: float = 1.0
    best: float = math.inf
    since: int = 0

    def see(self, value: float) -> None:
        if value < self.best:
            self.best, self.since = value, 0
            return
        self.since += 1
        if self.since > self.wait:
            self.factor, self.since = self.factor / 2, 0

    def state(self) -> dict[str, float]:
        return {"factor": self.factor, "best": self.best, "since": self.since}

    def restore(self, state: dict[str, float]) -> None:
        self.factor, self.best, self.since = state["factor"], state["best"], int(state["since"])
