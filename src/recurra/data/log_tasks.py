"""Synthetic event logs of many kinds: what a default has to do well on before anybody has tuned it."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.data.events import Case, EventLog
from recurra.data.tasks import check_sizes

FOLLOWERS = 4
"""How many activities may follow one."""
FAVOURED = 0.75
"""How often the one that the past favours does."""


def synthetic_log(
    cases: int = 1000,
    seed: int = 0,
    *,
    activities: int = 12,
    length: float = 8,
    order: int = 1,
    branches: int = 1,
    loops: float = 0.0,
    attribute: bool = False,
    timed: bool = False,
    noise: float = 0.02,
    drift: float = 0.0,
) -> EventLog:
    """Cases of a random process. A few activities may follow each, frequent ones more often (Zipf); one of them is favoured.

    - `length`: of a case on average. `order`: the favoured follower depends on the activity so many events back too.
    - `branches`: so many processes run in one case, their events interleaved as chance has it. `loops`: how often the last two
      events happen again.
    - `attribute`: the favoured follower depends on the case's attribute `kind` too. `timed`: on whether the event came soon or
      late after the one before.
    - `noise`: how often any activity follows. `drift`: the share of the last cases which follow another process.

    ```python
    log = rc.data.synthetic_log(100, activities=5, order=2)
    log.cases[0].activities
    ```
    """
    check_sizes("synthetic_log", cases=(cases, 1), activities=(activities, 2), order=(order, 1), branches=(branches, 1))
    random = np.random.default_rng(seed % 2**64)
    each = max(2, activities // branches)
    popular = 1 / np.arange(1, each + 1)
    count, chances = min(FOLLOWERS, each), popular / popular.sum()
    drawn = [random.choice(each, count, False, chances) for _ in range(branches * each)]
    followers = np.stack(drawn).reshape(branches, each, count)
    favourite = random.integers(followers.shape[2], size=(2, branches, each, each, 3, 2))
    whole = []
    for k in range(cases):
        other = int(drift > 0 and random.random() < (k / cases - 1 + 2 * drift) / drift)
        kind, now = int(random.integers(3)) if attribute else 0, 1.6e9 + 3600 * k
        past: list[list[int]] = [[0] * order for _ in range(branches)]
        names: list[str] = []
        times: list[float] = []
        late = 0
        for _ in range(max(2, 1 + random.poisson(length - 1))):
            b = int(random.integers(branches))
            if len(names) > 2 and random.random() < loops:
                names.append(names[-2])
            else:
                last, back = past[b][-1], past[b][-order] if order > 1 else 0
                best = favourite[other, b, last, back, kind, late if timed else 0]
                chosen = best if random.random() < FAVOURED else random.integers(followers.shape[2])
                what = int(random.integers(each)) if random.random() < noise else int(followers[b, last, chosen])
                past[b].append(what)
                names.append(f"{'abcdefgh'[b % 8]}{what}" if branches > 1 else f"a{what}")
            late = int(random.random() < 0.5)
            now += float(random.exponential(86400 if late else 600))
            times.append(now)
        whole.append(
            Case(str(k + 1), names, np.array(times), {"kind": ["xyz"[kind]] * len(names)} if attribute else {})
        )
    return EventLog(whole, {"case": "case", "activity": "activity", "time": "time"})


LOGS: dict[str, dict[str, Any]] = {
    "few cases": {"cases": 150},
    "plain": {"cases": 1500},
    "many activities": {"cases": 1500, "activities": 300, "length": 12},
    "third order": {"cases": 3000, "activities": 10, "length": 15, "order": 3},
    "long cases": {"cases": 300, "length": 60, "order": 2},
    "interleaved": {"cases": 1500, "branches": 3, "activities": 18, "length": 15},
    "loops": {"cases": 1500, "loops": 0.3, "length": 12},
    "attribute": {"cases": 1500, "attribute": True},
    "times": {"cases": 1500, "timed": True},
    "noise": {"cases": 1500, "noise": 0.3},
    "drift": {"cases": 1500, "drift": 0.5},
    "many cases": {"cases": 7500, "activities": 25, "length": 6, "order": 2},
}
"""Kinds of event logs by name: the arguments of `synthetic_log`."""


def log_rows(log: EventLog) -> list[dict[str, Any]]:
    """A row for each event, as a file has them."""
    return [
        {"case": case.name, "activity": what, "time": float(case.times[t])}
        | {k: v[t] for k, v in case.attributes.items()}
        for case in log.cases
        if case.times is not None
        for t, what in enumerate(case.activities)
    ]
