"""What the server does, without HTTP: the models that it serves, their verbs, and the sessions of their streams."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from recurra.errors import OptionError, RecurraError
from recurra.serve.batching import ATTEMPTS, Batcher, gone
from recurra.serve.errors import ApiError
from recurra.serve.metrics import Metrics
from recurra.serve.sessions import LocalSessions, Session, Sessions, SharedSessions, check_id
from recurra.serve.settings import ServeSettings
from recurra.serve.store import open_store
from recurra.tasks import capabilities as can
from recurra.tasks.run import Run
from recurra.tasks.streaming import Streamer

log = logging.getLogger("recurra.serve")
R = TypeVar("R")

VERBS: dict[str, type[Any]] = {
    "predict": can.Predicts,
    "generate": can.Generates,
    "forecast": can.Forecasts,
    "translate": can.Translates,
    "score": can.ScoresText,
}
"""The verbs beside sessions, and what they ask of a task."""
AT_ONCE = 2
"""Calls of verbs that run at the same time; the others wait."""
MOST_TOP, MOST_ANSWERS = 1000, 100_000
"""Names in one prediction, and in all predictions of one request."""
SHORT = 256
"""Inputs of so many characters are read at once; longer ones in a thread."""


class Served:
    """A run as the server knows it."""

    def __init__(self, run: Run):
        self.run, self.name = run, run.path.name
        self.weights = run.digest()
        refused = "" if run.is_trained else f"{run.path} has no checkpoint yet"
        self.verbs = [
            verb
            for verb, capability in VERBS.items()
            if can.offers(run.task, capability) and verb not in run.task.lacks
        ]
        self.streamer: Streamer | None = None
        try:
            self.streamer = run.streamer
        except RecurraError as error:
            refused = str(error)
        self.refused = refused
        self.batcher: Batcher | None = None

    def describe(self) -> dict[str, Any]:
        """A model as `/v1/models` shows it."""
        streamer = self.streamer
        return {
            "name": self.name,
            "recipe": str(self.run.settings.name),
            "model": self.run.task.called,
            "verbs": self.verbs,
            "sessions": streamer is not None,
            "reads": None if streamer is None else streamer.streaming.reads,
            "exact": streamer is not None and streamer.exact,
            "factorisation": self.run.task.factorisation,
        }


class Service:
    """Models, sessions and what is counted about them. `start` and `stop` are called in the event loop."""

    def __init__(self, runs: Sequence[Run], settings: ServeSettings):
        if not runs:
            raise OptionError("there is nothing to serve: give at least one run.")
        self.settings, self.metrics = settings, Metrics()
        self.models: dict[str, Served] = {}
        for run in runs:
            served = Served(run)
            if served.name in self.models:
                raise OptionError(
                    f"two runs are called {served.name}: models are told apart by the names of their folders."
                )
            self.models[served.name] = served
        self.ready = False
        self.sessions = self._open_sessions(runs[0].path)
        self.metrics.watch(self.sessions.count, lambda: self.sessions.evicted, lambda: self.sessions.expired)
        self._tidier: asyncio.Task[None] | None = None
        self._verbs = asyncio.Semaphore(AT_ONCE)

    def _open_sessions(self, first: Path) -> Sessions:
        settings = self.settings
        kept = (settings.max_sessions, settings.ttl, {name: each.weights for name, each in self.models.items()})
        if settings.store == "memory":
            return LocalSessions(None, *kept)
        store = open_store(settings.store or str(first / "sessions.sqlite"), shared=settings.shares_sessions)
        return SharedSessions(store, *kept) if settings.shares_sessions else LocalSessions(store, *kept)

    async def start(self) -> None:
        how: dict[str, Any] = {"max_batch": self.settings.max_batch, "max_wait": self.settings.max_wait}
        for served in self.models.values():
            if served.streamer is not None:
                served.batcher = Batcher(served.name, served.streamer, self.sessions, self.metrics, **how)
                served.batcher.start()
        self._tidier = asyncio.get_running_loop().create_task(self._tidy())
        self.ready = True

    async def stop(self) -> None:
        """Answer what waits, save the sessions, close the store."""
        self.ready = False
        for served in self.models.values():
            if served.batcher is not None:
                await served.batcher.stop()
        if self._tidier is not None:
            self._tidier.cancel()
        await asyncio.to_thread(self.sessions.close)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(self.settings.save_every)
            try:
                await asyncio.to_thread(self.sessions.tidy)
            except Exception as error:  # a full disk must not stop the server; what was not saved is tried again
                log.error("sessions could not be saved: %s", str(error)[:500])

    # -- models ------------------------------------------------------------------------------------------------------

    def model(self, name: str | None) -> Served:
        """A model by name; the only one needs none."""
        if name is None and len(self.models) == 1:
            return next(iter(self.models.values()))
        found = None if name is None else self.models.get(name)
        if found is None:
            asked = "model is missing" if name is None else f"model {name[:80]!r} does not exist"
            raise ApiError(404 if name is not None else 422, f"{asked}. Known: {', '.join(self.models)}.")
        return found

    def verb(self, name: str | None, verb: str) -> Served:
        """A model that can do what is asked for."""
        served = self.model(name)
        if verb not in served.verbs:
            able = [*served.verbs, *(["sessions"] if served.streamer is not None else [])]
            raise ApiError(422, f"{served.name} cannot {verb}. It can: {', '.join(able) or 'nothing here'}.")
        return served

    async def call(self, function: Callable[..., R], *args: Any, **options: Any) -> R:
        """Run a verb in a thread; what a client can put right is told to it."""
        async with self._verbs:
            try:
                return await asyncio.to_thread(partial(function, *args, **options))
            except RecurraError as error:
                raise ApiError(422, shown(error)) from None

    # -- sessions ----------------------------------------------------------------------------------------------------

    async def create(self, name: str | None, state: Any = None, steps: int = 0) -> tuple[Session, Served, Any]:
        """A new session, with what follows before the first input where that is known."""
        served = self.model(name)
        streamer = self._streamer(served)
        first = streamer.first if state is None else await self._state(streamer, state)
        session = Session.new(served.name, served.weights, first, steps)
        await self._blocking(self.sessions.add, session)
        opened = None
        if state is None and streamer.opened is not None:
            opened = streamer.streaming.answer(streamer.opened, 5)[0]
        return session, served, opened

    async def step(self, id: str, inputs: Any, top: int, each: bool) -> tuple[Session, list[dict[str, Any]]]:
        """A session after some inputs, and what follows."""
        served = await self._served(id)
        streamer = self._streamer(served)
        encode = streamer.streaming.encode
        try:
            if isinstance(inputs, str | list) and len(inputs) > SHORT:
                read = await asyncio.to_thread(encode, inputs)
            else:
                read = encode(inputs)
        except RecurraError as error:
            raise ApiError(422, shown(error)) from None
        if len(read) > self.settings.max_steps:
            raise ApiError(422, f"{len(read):,} steps; one request may have {self.settings.max_steps:,}. Send several.")
        if each and len(read) * top > MOST_ANSWERS:
            raise ApiError(422, f"steps times top is {len(read) * top:,}, and may be {MOST_ANSWERS:,}. Ask for fewer.")
        assert served.batcher is not None
        return await served.batcher.step(id, read, top, each)

    async def get(self, id: str) -> tuple[Session, Served]:
        session = await self._find(id)
        return session, self.models[session.model]

    async def restore(self, id: str, state: Any, steps: int | None) -> tuple[Session, Served]:
        """A session with another state."""
        for _ in range(ATTEMPTS):
            session, served = await self.get(id)
            flat = await self._state(self._streamer(served), state)
            after = session.after(flat, 0 if steps is None else steps - session.steps)
            if (await self._blocking(self.sessions.save, [after]))[0]:
                return after, served
        raise ApiError(409, f"session {id} is stepped by others. Restore it when they are done.")

    async def delete(self, id: str) -> None:
        if check_id(id) is None or not await self._blocking(self.sessions.delete, id):
            raise gone(id[:40])

    async def _served(self, id: str) -> Served:
        if check_id(id) is None:
            raise gone(id[:40])
        if len(self.models) == 1:
            return next(iter(self.models.values()))
        return self.models[(await self._find(id)).model]

    async def _find(self, id: str) -> Session:
        found = None if check_id(id) is None else (await self._blocking(self.sessions.load, [id]))[0]
        if found is None or found.model not in self.models:
            raise gone(id[:40])
        return found

    async def _state(self, streamer: Streamer, named: Any) -> Any:
        try:
            return await asyncio.to_thread(streamer.state_of, named)
        except RecurraError as error:
            raise ApiError(422, shown(error)) from None

    def _streamer(self, served: Served) -> Streamer:
        if served.streamer is None:
            raise ApiError(422, f"{served.name} has no sessions: {served.refused}")
        return served.streamer

    async def _blocking(self, function: Callable[..., R], *args: Any) -> R:
        """A call that waits for the store, if there is one to wait for."""
        if not self.settings.shares_sessions:
            return function(*args)
        try:
            return await asyncio.to_thread(function, *args)
        except Exception as error:
            log.error("the store of sessions failed: %s", str(error)[:500])
            raise ApiError(503, "the store of sessions cannot be reached. Try again.", {"Retry-After": "1"}) from None


def shown(error: Exception) -> str:
    """A message for a client: one line, without the places of files on the server."""
    line = " ".join(str(error).split())
    return re.sub(r"\S*recurra-\w+/[\w.]+", "data", line)[:1000]


def first_of(pieces: Iterator[str]) -> tuple[str | None, Iterator[str]]:
    """The first piece of a text, so that what cannot be generated is refused before an answer begins; and the rest."""
    return next(pieces, None), pieces
