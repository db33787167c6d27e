"""The micro-batcher: steps of many sessions that arrive within a moment become one call of the engine.

Requests wait in a queue, at most `max_wait`, or until `max_batch` sessions are there; while a call runs in the worker thread, the
next batch gathers. Of one session at most one request is in a batch, so that its steps are read in the order in which they came.
What a session gets does not depend on the batch (`Streamer`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.serve.errors import ApiError
from recurra.serve.metrics import Metrics
from recurra.serve.sessions import Session, Sessions
from recurra.tasks.streaming import Streamer

log = logging.getLogger("recurra.serve")
QUEUE = 20_000
"""Requests that may wait; beyond, the server answers that it is busy."""
ATTEMPTS = 20
"""How often a step is computed again because another worker stepped the same session meanwhile."""


@dataclass(slots=True, eq=False)
class Job:
    """Inputs for a session, and who waits for the answers."""

    id: str
    inputs: Tensor
    top: int
    each: bool
    done: asyncio.Future[tuple[Session, list[dict[str, Any]]]]
    attempts: int = 0


Outcome = tuple[Session, list[dict[str, Any]]] | ApiError | None
"""The session after its steps with their answers; why there are none; or that the step must be tried again."""


class Batcher:
    """The queue of one model, and the thread in which its engine runs."""

    def __init__(
        self, name: str, streamer: Streamer, sessions: Sessions, metrics: Metrics, *, max_batch: int, max_wait: float
    ):
        self.name, self.streamer, self._sessions, self._metrics = name, streamer, sessions, metrics
        self._max_batch, self._max_wait = max_batch, max_wait
        self._queue: deque[Job] = deque()
        self._arrived = asyncio.Event()
        self._full = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"engine-{name}")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Answer what waits, then end."""
        while self._queue and self._task is not None and not self._task.done():
            await asyncio.sleep(0.005)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._thread.shutdown(wait=True)

    async def step(self, id: str, inputs: Tensor, top: int, each: bool) -> tuple[Session, list[dict[str, Any]]]:
        """The session after some inputs, and what follows after the last, or after each."""
        if len(self._queue) >= QUEUE:
            raise ApiError(503, f"{QUEUE} requests wait already. Try again later.", {"Retry-After": "1"})
        job = Job(id, inputs, top, each, asyncio.get_running_loop().create_future())
        self._queue.append(job)
        self._arrived.set()
        if len(self._queue) >= self._max_batch:
            self._full.set()
        return await job.done

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if len(self._queue) < self._max_batch and self._max_wait > 0:
                self._full.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._max_wait):
                        await self._full.wait()
            jobs = self._take()
            try:
                outcomes = await loop.run_in_executor(self._thread, self._run, jobs)
            except Exception as error:  # a fault of the store or the engine must not stop the server
                log.error("a batch of %s failed: %s: %s", self.name, type(error).__name__, str(error)[:500])
                refused = ApiError(503, "the step could not be computed or saved. Try again.", {"Retry-After": "1"})
                outcomes = [refused] * len(jobs)
            again = [job for job, outcome in zip(jobs, outcomes, strict=True) if not _answer(job, outcome)]
            self._queue.extendleft(reversed(again))
            if not self._queue:
                self._arrived.clear()

    def _take(self) -> list[Job]:
        """The next jobs, in order, each of another session; clients that left are not computed for."""
        taken: dict[str, Job] = {}
        later: list[Job] = []
        while self._queue and len(taken) < self._max_batch:
            job = self._queue.popleft()
            if job.done.done():
                continue
            if job.id in taken:
                later.append(job)
            else:
                taken[job.id] = job
        self._queue.extendleft(reversed(later))
        return list(taken.values())

    def _run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """One call of the engine, in its thread."""
        began = time.perf_counter()
        outcomes: list[Outcome] = [None] * len(jobs)
        live: list[tuple[int, Job, Session]] = []
        for k, (job, session) in enumerate(zip(jobs, self._sessions.load([job.id for job in jobs]), strict=True)):
            if session is None or session.model != self.name:
                outcomes[k] = gone(job.id)
            else:
                live.append((k, job, session))
        if not live:
            return outcomes
        predicted, states = self.streamer.run([each.state for _, _, each in live], [job.inputs for _, job, _ in live])
        after = [each.after(state, len(job.inputs)) for (_, job, each), state in zip(live, states, strict=True)]
        answers = self._answers([job for _, job, _ in live], predicted)
        saved = self._sessions.save(after)
        for (k, job, _), session, answer, written in zip(live, after, answers, saved, strict=True):
            job.attempts += 1
            if written:
                outcomes[k] = (session, answer)
            elif job.attempts >= ATTEMPTS:
                outcomes[k] = ApiError(409, f"session {job.id} is stepped by too many at once. Send its steps in turn.")
        self._metrics.batch(
            self.name, len(live), sum(len(job.inputs) for _, job, _ in live), time.perf_counter() - began
        )
        return outcomes

    def _answers(self, jobs: Sequence[Job], predicted: Sequence[Tensor]) -> list[list[dict[str, Any]]]:
        """What each job asked to know, from the outputs of its steps: all of one `top` together."""
        found: list[list[dict[str, Any]]] = [[] for _ in jobs]
        for top in {job.top for job in jobs}:
            own = [k for k, job in enumerate(jobs) if job.top == top]
            rows = [predicted[k] if jobs[k].each or predicted[k].shape[0] == 1 else predicted[k][-1:] for k in own]
            answers = iter(self.streamer.streaming.answer(torch.cat(rows), top))
            for k, part in zip(own, rows, strict=True):
                found[k] = [next(answers) for _ in range(part.shape[0])]
        return found


def _answer(job: Job, outcome: Outcome) -> bool:
    """Tell who waits; false where the job must be tried again."""
    if outcome is None:
        return False
    if not job.done.done():  # the client may have left
        if isinstance(outcome, ApiError):
            job.done.set_exception(outcome)
        else:
            job.done.set_result(outcome)
    return True


def gone(id: str) -> ApiError:
    return ApiError(404, f"session {id} does not exist: it was deleted, has expired, or was evicted. Create one.")
