"""The runs of a folder as they change: one look for all pages that are open, at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.errors import RunError
from recurra.lab.folder import LabFolder
from recurra.runs.creation import RECIPE
from recurra.runs.folder import METRICS, RunFolder
from recurra.runs.lock import holder
from recurra.runs.log import Log

EVERY = 1.0
"""Seconds between two looks."""
MANY = 4
"""Streams that are told of news every second. Where there are more, each is told less often, so that all of them together do not
take the cores from a training."""
BEATS = 10
"""Looks without news after which a page is told that the lab is still there."""


@dataclass
class Known:
    """What the last look found of a run; `version` grows with every change."""

    made: int
    recipe: dict[str, Any]
    log: Log
    stamp: tuple[Any, ...] = ()
    version: int = 0
    summary: dict[str, Any] = field(default_factory=dict)


class Live:
    """The runs of a folder, looked at again when somebody asks."""

    def __init__(self, folder: LabFolder):
        self.folder, self.version, self.followers = folder, 0, 0
        self.runs: dict[str, Known] = {}
        self._looked = -EVERY
        self._lock = asyncio.Lock()

    async def look(self) -> None:
        """See what is new; not more often than every second, however many ask."""
        async with self._lock:
            if time.monotonic() - self._looked >= EVERY:
                await self.folder.work(self._look)
                self._looked = time.monotonic()

    def _look(self) -> None:
        found = {}
        for path in self.folder.runs():
            with suppress(OSError, RunError):
                made = (path / RECIPE).stat().st_mtime_ns
                known = self.runs.get(path.name)
                if known is None or known.made != made:
                    known = Known(made, RunFolder.open(path).recipe, Log(path / METRICS))
                found[path.name] = known
                self._update(path, known)
        if found.keys() != self.runs.keys():
            self.version += 1
        self.runs = dict(sorted(found.items(), key=lambda item: (-item[1].made, item[0])))

    def _update(self, path: Path, known: Known) -> None:
        pid = holder(path)
        stamp = (*known.log.stamp, pid)
        if stamp == known.stamp:
            return
        self.version += 1
        glance = known.log.glance()
        training, model = (_part(known.recipe, name) for name in ("training", "model"))
        steps = training.get("steps", known.recipe.get("steps"))
        done = isinstance(steps, int) and glance.step >= steps
        known.stamp, known.version = stamp, self.version
        known.summary = {
            "name": path.name,
            "recipe": str(known.recipe.get("name", "")),
            "cell": str(model.get("cell", "")),
            "state": "training" if pid is not None else "finished" if done else "stopped" if glance.step else "new",
            "step": glance.step,
            "steps": steps,
            "loss": glance.loss,
            "best_valid": glance.best_valid,
            "started": known.made // 1_000_000_000,
        }

    def news(self, since: int) -> dict[str, Any]:
        """The runs that changed since a version, and the names of all, in order."""
        changed = [each.summary for each in self.runs.values() if each.version > since]
        return {"version": self.version, "runs": changed, "names": list(self.runs)}

    async def follow(self) -> AsyncIterator[dict[str, Any] | None]:
        """All runs at first, then those that change, as they do."""
        seen, idle = -1, 0
        self.followers += 1
        try:
            while not self.folder.closing.is_set():
                await self.look()
                if self.version != seen:
                    yield self.news(seen)
                    seen, idle = self.version, 0
                elif (idle := idle + 1) >= BEATS:
                    idle = 0
                    yield None
                await asyncio.sleep(EVERY * max(1.0, self.followers / MANY))
        finally:
            self.followers -= 1

    def log(self, name: str) -> Log:
        """The log of a run."""
        path = self.folder.place(name)
        known = self.runs.get(name)
        return known.log if known is not None else Log(path / METRICS)

    def settings(self, name: str) -> dict[str, Any]:
        """The settings of a run by dotted key."""
        known = self.runs.get(name)
        recipe = known.recipe if known is not None else RunFolder.open(self.folder.place(name)).recipe
        flat: dict[str, Any] = {}
        for key, value in recipe.items():
            flat |= (
                {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
            )
        return flat


def _part(recipe: dict[str, Any], name: str) -> dict[str, Any]:
    """Settings of a recipe that anybody may have written."""
    found = recipe.get(name)
    return found if isinstance(found, dict) else {}


def differing(settings: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that all these runs have, and in which they differ, with the value of each run."""
    known = [set(each) for each in settings.values()]
    keys = [key for key in next(iter(settings.values()), {}) if all(key in each for each in known)]
    rows = [{"key": key, "values": [each[key] for each in settings.values()]} for key in keys]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]
