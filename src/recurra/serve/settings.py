"""What a server is told, declared once: the command line, `rc.serve` and the documentation read it here."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from recurra.errors import OptionError, nearest
from recurra.types import setting


@dataclass(frozen=True)
class ServeSettings:
    """Where a server listens, what it refuses, and how it keeps sessions."""

    host: str = setting("127.0.0.1", "the address to listen on; 0.0.0.0 for all")
    port: int = setting(8100, "the port to listen on; 0: any that is free", low=0, high=65535)
    api_key: str | None = setting(None, "clients must send it as `Authorization: Bearer KEY`")
    store: str | None = setting(
        None, "where sessions are kept: FILE.sqlite, redis://HOST:PORT/N, or memory; none: RUN/sessions.sqlite"
    )
    workers: int = setting(1, "processes that serve; with several, sessions live in the store", low=1, high=64)
    threads: int = setting(1, "of one call of the engine; more pay for large models", low=1, high=256)
    max_sessions: int = setting(10_000, "beyond so many the one that was not used for longest is forgotten", low=1)
    ttl: float = setting(3600.0, "seconds until a session that is not used is forgotten", above=0)
    save_every: float = setting(5.0, "seconds between two savings of sessions that have changed", above=0)
    max_batch: int = setting(256, "sessions whose steps are computed in one call, at most", low=1, high=4096)
    max_wait: float = setting(0.001, "seconds that a step waits for others to be computed with", low=0, high=1)
    max_steps: int = setting(4096, "inputs of one request", low=1)
    max_body: int = setting(1 << 20, "bytes of one request", low=1024)
    rate: float = setting(0.0, "requests a second of one client address; 0: any number", low=0)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, bounds = getattr(self, each.name), each.metadata["bounds"]
            if each.type in ("int", "float"):
                whole = each.type == "int"
                if (
                    isinstance(value, bool)
                    or not isinstance(value, int if whole else (int, float))
                    or not isfinite(value)
                ):
                    raise OptionError(f"{each.name} must be a {'whole ' if whole else ''}number; got {value!r}.")
                low, above, high = bounds["low"], bounds["above"], bounds["high"]
                if (low is not None and value < low) or (above is not None and value <= above):
                    raise OptionError(
                        f"{each.name} must be {f'at least {low}' if above is None else f'above {above}'}; got {value}."
                    )
                if high is not None and value > high:
                    raise OptionError(f"{each.name} must be at most {high}; got {value}.")
            elif value is not None and (not isinstance(value, str) or not value):
                raise OptionError(f"{each.name} must be a text; got {value!r}.")
        if self.api_key is not None and (len(self.api_key) < 8 or not self.api_key.isascii()):
            raise OptionError("api_key must have at least 8 ASCII characters: a short key is guessed.")
        if self.workers > 1 and self.store == "memory":
            raise OptionError(
                f"{self.workers} workers share sessions through a store: give a file or redis://, not store=memory."
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shares_sessions(self) -> bool:
        """Whether others may step the same sessions, so that each step reads and writes the store."""
        return self.workers > 1 or (self.store or "").startswith(("redis://", "rediss://", "unix://"))


def make_settings(**options: Any) -> ServeSettings:
    """Settings by name; what does not exist is refused with the nearest name."""
    known = [each.name for each in fields(ServeSettings)]
    for name in options:
        if name not in known:
            raise OptionError(f"serve has no option {name!r}.{nearest(name, known)}")
    return ServeSettings(**options)
