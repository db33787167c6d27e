"""Sessions: streams that clients step, with what each has read kept as its state.

One worker keeps them in memory and saves those that changed every few seconds (`LocalSessions`). Several workers, or several
machines with one Redis, keep them in the store: each step reads the state there and writes it back if nobody else has stepped the
session meanwhile (`SharedSessions`).
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from torch import Tensor

from recurra.types import Float

ID = re.compile(r"[A-Za-z0-9_-]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Session:
    """A stream at some step. `version` counts its changes; `weights` is the digest of the model that its state belongs to."""

    id: str
    model: str
    weights: str
    state: Float[Tensor, " S"]
    steps: int = 0
    created: float = 0.0
    used: float = 0.0
    version: int = 0

    @classmethod
    def new(cls, model: str, weights: str, state: Tensor, steps: int = 0) -> Session:
        now = time.time()
        return cls(secrets.token_urlsafe(24), model, weights, state, steps, now, now)

    def after(self, state: Tensor, steps: int) -> Session:
        """The session after so many steps more."""
        now, version = time.time(), self.version + 1
        return Session(self.id, self.model, self.weights, state, self.steps + steps, self.created, now, version)


class Store(Protocol):
    """Where sessions outlive a process. Every method may be called from any thread."""

    def load(self, ids: Sequence[str]) -> list[Session | None]: ...

    def save(self, sessions: Sequence[Session], *, compare: bool) -> list[bool]:
        """Write sessions; with `compare`, only those whose version in the store is the one before. Which were written."""

    def delete(self, ids: Sequence[str]) -> int:
        """Forget sessions; how many there were."""

    def all(self) -> list[Session]: ...

    def count(self) -> int: ...

    def expire(self, before: float) -> int:
        """Forget what was last used before that time; how many."""

    def evict(self, most: int) -> int:
        """Forget what was not used for longest, until at most so many are left; how many."""

    def close(self) -> None: ...


class Sessions(Protocol):
    """What the server asks of the sessions it keeps. `load` and `save` are called in the thread of an engine."""

    evicted: int
    expired: int

    def add(self, session: Session) -> None: ...

    def load(self, ids: Sequence[str]) -> list[Session | None]: ...

    def save(self, sessions: Sequence[Session]) -> list[bool]: ...

    def delete(self, id: str) -> bool: ...

    def tidy(self) -> None:
        """What is done every few seconds: forget what expired, save what changed."""

    def count(self) -> int: ...

    def close(self) -> None: ...


class LocalSessions:
    """Sessions in the memory of this process, the one that was not used for longest first."""

    def __init__(self, store: Store | None, most: int, ttl: float, weights: dict[str, str]):
        self._store, self._most, self._ttl = store, most, ttl
        self._lock = threading.Lock()  # requests, engines and the saver are threads of their own
        self._table: OrderedDict[str, Session] = OrderedDict()
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self.evicted = self.expired = 0
        if store is not None:
            self._restore(store.all(), weights)

    def _restore(self, kept: list[Session], weights: dict[str, str]) -> None:
        """What an earlier process saved, as far as it belongs to the models that are served."""
        oldest = time.time() - self._ttl
        for session in sorted(kept, key=lambda each: each.used):
            if session.used >= oldest and weights.get(session.model) == session.weights:
                self._table[session.id] = session
            elif session.model in weights:
                self._gone.add(session.id)

    def add(self, session: Session) -> None:
        with self._lock:
            self._table[session.id] = session
            self._changed.add(session.id)
            while len(self._table) > self._most:
                self._forget(next(iter(self._table)))
                self.evicted += 1

    def load(self, ids: Sequence[str]) -> list[Session | None]:
        oldest = time.time() - self._ttl
        found = [self._table.get(id) for id in ids]
        return [each if each is not None and each.used >= oldest else None for each in found]

    def save(self, sessions: Sequence[Session]) -> list[bool]:
        with self._lock:
            return [self._replace(session) for session in sessions]

    def _replace(self, session: Session) -> bool:
        known = self._table.get(session.id)
        if known is None:
            return True  # it was deleted meanwhile, and stays so
        if known.version != session.version - 1:
            return False
        self._table[session.id] = session
        self._table.move_to_end(session.id)
        self._changed.add(session.id)
        return True

    def delete(self, id: str) -> bool:
        with self._lock:
            known = id in self._table
            self._forget(id)
            return known

    def _forget(self, id: str) -> None:
        if self._table.pop(id, None) is not None:
            self._gone.add(id)

    def tidy(self) -> None:
        oldest = time.time() - self._ttl
        with self._lock:
            for session in takewhile(lambda each: each.used < oldest, list(self._table.values())):
                self._forget(session.id)
                self.expired += 1
            (changed, self._changed), (gone, self._gone) = (self._changed, set()), (self._gone, set())
            ready = [self._table[id] for id in sorted(changed) if id in self._table]
        if self._store is None:
            return
        try:
            self._store.delete(sorted(gone))
            self._store.save(ready, compare=False)
        except Exception:
            with self._lock:  # tried again next time
                self._changed |= changed
                self._gone |= gone
            raise

    def count(self) -> int:
        return len(self._table)

    def close(self) -> None:
        try:
            self.tidy()
        finally:
            if self._store is not None:
                self._store.close()


class SharedSessions:
    """Sessions in a store that others step too."""

    def __init__(self, store: Store, most: int, ttl: float, weights: dict[str, str]):
        self._store, self._most, self._ttl, self._weights = store, most, ttl, weights
        self.evicted = self.expired = 0

    def add(self, session: Session) -> None:
        self._store.save([session], compare=False)
        if self._store.count() > self._most:
            self.evicted += self._store.evict(self._most)

    def load(self, ids: Sequence[str]) -> list[Session | None]:
        oldest = time.time() - self._ttl
        return [each if self._is_ours(each, oldest) else None for each in self._store.load(ids)]

    def _is_ours(self, session: Session | None, oldest: float) -> bool:
        return session is not None and session.used >= oldest and self._weights.get(session.model) == session.weights

    def save(self, sessions: Sequence[Session]) -> list[bool]:
        return self._store.save(sessions, compare=True)

    def delete(self, id: str) -> bool:
        return self._store.delete([id]) > 0

    def tidy(self) -> None:
        self.expired += self._store.expire(time.time() - self._ttl)

    def count(self) -> int:
        return self._store.count()

    def close(self) -> None:
        self._store.close()


def check_id(id: Any) -> str | None:
    """A session's id, if it can be one."""
    return id if isinstance(id, str) and ID.fullmatch(id) else None
