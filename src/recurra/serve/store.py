"""Stores of sessions: a file of SQLite for the workers of one machine, Redis for several machines."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.serve.sessions import Session, Store

COLUMNS = ("id", "model", "weights", "dtype", "state", "steps", "created", "used", "version")
DTYPES = {"float32": np.float32, "float64": np.float64}


def open_store(where: str, *, shared: bool) -> Store:
    """A store by its address: `redis://…`, or a file, of this process alone unless it is shared."""
    if "://" in where:
        return RedisStore(where)
    return SQLiteStore(Path(where), shared=shared)


def _packed(session: Session) -> tuple[Any, ...]:
    """A session as the fields of `COLUMNS`; its state as bytes, exactly."""
    state = session.state.detach().cpu().numpy()
    return (
        *(session.id, session.model, session.weights, str(state.dtype), state.tobytes()),
        *(session.steps, session.created, session.used, session.version),
    )


def _unpacked(fields: Sequence[Any]) -> Session:
    id, model, weights, dtype, data, steps, created, used, version = fields
    state: Tensor = torch.from_numpy(np.frombuffer(data, dtype=DTYPES[dtype]).copy())
    return Session(id, model, weights, state, int(steps), float(created), float(used), int(version))


class SQLiteStore:
    """A file of SQLite in WAL mode: readers do not wait for the writer, and a killed process leaves it whole."""

    def __init__(self, path: Path, *, shared: bool = False):
        self.path, self._lock = path, threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(
                path, timeout=10 if shared else 1, check_same_thread=False, isolation_level=None
            )
            if not shared:  # a second server would write its own sessions over these
                self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, model TEXT, weights TEXT, dtype TEXT, "
                "state BLOB, steps INTEGER, created REAL, used REAL, version INTEGER)"
            )
            self._base.execute("CREATE INDEX IF NOT EXISTS by_use ON sessions (used)")
        except (OSError, sqlite3.Error) as error:
            if hasattr(self, "_base"):
                self._base.close()
            if "locked" in str(error):
                raise OptionError(
                    f"store {path} is in use by another server. Give each its own with --store, or one server more --workers."
                ) from None
            raise OptionError(
                f"store {path}: {error}. Give a file of sessions in a folder that can be written."
            ) from error

    def load(self, ids: Sequence[str]) -> list[Session | None]:
        found: dict[str, Session] = {}
        with self._lock:
            for first in range(0, len(ids), 500):
                part = ids[first : first + 500]
                marks = ",".join("?" * len(part))
                query = f"SELECT {','.join(COLUMNS)} FROM sessions WHERE id IN ({marks})"
                found |= {row[0]: _unpacked(row) for row in self._base.execute(query, part)}
        return [found.get(id) for id in ids]

    def save(self, sessions: Sequence[Session], *, compare: bool) -> list[bool]:
        if not sessions:
            return []
        rows, written = [_packed(each) for each in sessions], []
        with self._lock, closing(self._base.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    if compare:
                        cursor.execute(
                            "UPDATE sessions SET state=?, steps=?, used=?, version=? WHERE id=? AND version=?",
                            (row[4], row[5], row[7], row[8], row[0], row[8] - 1),
                        )
                        written.append(cursor.rowcount > 0)
                    else:
                        marks = ",".join("?" * len(COLUMNS))
                        cursor.execute(f"INSERT OR REPLACE INTO sessions VALUES ({marks})", row)
                        written.append(True)
                cursor.execute("COMMIT")
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
        return written

    def delete(self, ids: Sequence[str]) -> int:
        return sum(self._change("DELETE FROM sessions WHERE id=?", (id,)) for id in ids)

    def all(self) -> list[Session]:
        with self._lock:
            return [_unpacked(row) for row in self._base.execute(f"SELECT {','.join(COLUMNS)} FROM sessions")]

    def count(self) -> int:
        with self._lock:
            return int(self._base.execute("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def expire(self, before: float) -> int:
        return self._change("DELETE FROM sessions WHERE used<?", (before,))

    def evict(self, most: int) -> int:
        query = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY used DESC LIMIT -1 OFFSET ?)"
        return self._change(query, (most,))

    def _change(self, query: str, values: tuple[Any, ...]) -> int:
        with self._lock:
            return self._base.execute(query, values).rowcount

    def close(self) -> None:
        with self._lock:
            self._base.close()


SAVE = """
local key, version = KEYS[1], redis.call('HGET', KEYS[1], 'version')
if ARGV[1] == '1' and version ~= ARGV[2] then return 0 end
for k = 5, #ARGV, 2 do redis.call('HSET', key, ARGV[k], ARGV[k + 1]) end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
return 1
"""
"""A step is written only if the version is the one that it began from; the server runs this as one."""


FORGET = """
local ids = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3])
for _, id in ipairs(ids) do
    redis.call('DEL', ARGV[4] .. id)
    redis.call('ZREM', KEYS[1], id)
end
return #ids
"""
"""As one too: a session that is stepped at this moment is either younger than what is forgotten, or gone for that step."""


class RedisStore:
    """A hash for each session, and a sorted set of when each was last used."""

    PREFIX, USED = "recurra:session:", "recurra:used"

    def __init__(self, url: str):
        try:
            import redis
        except ImportError:
            raise OptionError(
                "a store redis:// needs the package redis. Install it with pip install 'recurra[redis]'."
            ) from None
        try:
            self._base: Any = redis.Redis.from_url(
                url, socket_timeout=5, socket_connect_timeout=5, health_check_interval=30
            )
            self._base.ping()
        except (ValueError, redis.RedisError) as error:
            shown = url.rpartition("@")[2]  # not the password before it
            raise OptionError(
                f"store {shown} cannot be reached: {error}. Start Redis, or give another address."
            ) from error
        self._save, self._forget = self._base.register_script(SAVE), self._base.register_script(FORGET)

    def load(self, ids: Sequence[str]) -> list[Session | None]:
        pipe = self._base.pipeline(transaction=False)
        for id in ids:
            pipe.hmget(self.PREFIX + id, list(COLUMNS))
        return [None if row[0] is None else self._session(row) for row in pipe.execute()]

    def _session(self, row: Sequence[bytes]) -> Session:
        return _unpacked(
            [value if name == "state" else value.decode() for name, value in zip(COLUMNS, row, strict=True)]
        )

    def save(self, sessions: Sequence[Session], *, compare: bool) -> list[bool]:
        pipe = self._base.pipeline(transaction=False)
        for session in sessions:
            fields = [part for pair in zip(COLUMNS, _packed(session), strict=True) for part in pair]
            before: list[Any] = [int(compare), session.version - 1, session.used, session.id]
            self._save(keys=[self.PREFIX + session.id, self.USED], args=[*before, *fields], client=pipe)
        return [bool(done) for done in pipe.execute()]

    def delete(self, ids: Sequence[str]) -> int:
        if not ids:
            return 0
        self._base.zrem(self.USED, *ids)
        return int(self._base.delete(*(self.PREFIX + id for id in ids)))

    def all(self) -> list[Session]:
        ids = [id.decode() for id in self._base.zrange(self.USED, 0, -1)]
        return [each for each in self.load(ids) if each is not None]

    def count(self) -> int:
        return int(self._base.zcard(self.USED))

    def expire(self, before: float) -> int:
        return int(self._forget(keys=[self.USED], args=["ZRANGEBYSCORE", "-inf", f"({before!r}", self.PREFIX]))

    def evict(self, most: int) -> int:
        return int(self._forget(keys=[self.USED], args=["ZRANGE", 0, -1 - most, self.PREFIX]))

    def close(self) -> None:
        self._base.close()
