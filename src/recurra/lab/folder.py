"""The folder that a lab shows: its runs by name, opened once, and where what they compute is computed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from recurra.errors import RunError
from recurra.runs.folder import CHECKPOINTS
from recurra.tasks.run import Run
from recurra.tasks.train import open_run

OPEN = 8
"""How many runs are kept open."""
KEPT = 16
"""How many results of a run are remembered."""
WORKERS = 2
"""How many runs compute at the same time: two that are compared. Requests beyond wait, and leave the cores to training."""

T = TypeVar("T")
log = logging.getLogger("recurra.lab")
"""Names what is damaged in a run folder, on standard error."""


class LabFolder:
    """Runs of one folder by their names. Nothing outside of it is ever opened.

    - `home`: where the lab was started; relative paths of data begin there. `selected`: the run that the page opens
      on, if the lab was opened on one.
    """

    def __init__(self, path: Path, selected: str | None = None):
        self.path, self.home, self.selected = path.resolve(), Path.cwd(), selected
        self.closing = Event()
        self._open: OrderedDict[str, tuple[tuple[int, ...], Run]] = OrderedDict()
        self._kept: WeakKeyDictionary[Run, OrderedDict[Hashable, Any]] = WeakKeyDictionary()
        self._locks: dict[str, asyncio.Lock] = {}
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="recurra-lab")

    def place(self, name: str) -> Path:
        """The folder of a run; a name that leads elsewhere is refused."""
        path = self.path / name
        plain = name == os.path.basename(name) and name not in ("", ".", "..") and name.isprintable()
        try:
            found = plain and path.resolve().parent == self.path and path.is_dir()
        except (OSError, ValueError):
            found = False
        if not found:
            raise RunError(f"there is no run {name[:80]!r} in {self.path}.")
        return path

    def runs(self) -> list[Path]:
        """The folders in it that may be runs. A link is none: it may lead out of the folder."""
        try:
            return sorted(Path(each) for each in os.scandir(self.path) if each.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def run(self, name: str) -> Run:
        """The run of that name, with the weights that it has now."""
        path = self.place(name)
        stamp = tuple(_changed(path / each) for each in ("recipe.json", f"{CHECKPOINTS}/best", f"{CHECKPOINTS}/last"))
        known = self._open.get(name)
        if known is None or known[0] != stamp:
            known = stamp, open_run(path, notice=log.warning)
        self._open[name] = known
        self._open.move_to_end(name)
        while len(self._open) > OPEN:
            self._open.popitem(last=False)
        return known[1]

    def remember(self, run: Run, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for a run under this key; made now where it was not, or was long ago. Forgotten with the run."""
        kept = self._kept.setdefault(run, OrderedDict())
        value: T = kept.pop(key) if key in kept else make()
        kept[key] = value
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return value

    async def work(self, work: Callable[[], T]) -> T:
        """What a function gives that is too slow for the thread that answers."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    async def compute(self, name: str, work: Callable[[Run], T]) -> T:
        """What a function of a run gives. One at a time for each run: a model is in one mode only."""
        async with self._lock(name):
            return await self.work(lambda: work(self.run(name)))

    async def stream(self, name: str, make: Callable[[Run], Iterator[T]], at_once: int = 8) -> AsyncIterator[T]:
        """What a run yields, a few items at a time, so that others get their turn between them."""
        async with self._lock(name):
            items = await self.work(lambda: make(self.run(name)))
        taken = await self._take(name, items, at_once)
        while taken and not self.closing.is_set():
            for item in taken:
                yield item
            taken = await self._take(name, items, at_once) if len(taken) == at_once else []

    async def _take(self, name: str, items: Iterator[T], count: int) -> list[T]:
        async with self._lock(name):
            return await self.work(lambda: list(islice(items, count)))

    def _lock(self, name: str) -> asyncio.Lock:
        self.place(name)  # so that locks are not made for names of nothing
        return self._locks.setdefault(name, asyncio.Lock())

    def close(self) -> None:
        """End event streams; what is being computed ends by itself."""
        self.closing.set()
        self._workers.shutdown(wait=False, cancel_futures=True)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
