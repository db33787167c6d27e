"""A client that keeps many connections busy: each sends its next request when the answer to the last one is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import torch

Body = Callable[[int, int], bytes]
"""What connection k sends as its n-th request, a whole HTTP request."""


@dataclass(frozen=True)
class Load:
    """Requests a second over all connections, the milliseconds that half and 99 % of them took at most, and what failed."""

    rate: float
    p50: float
    p99: float
    failed: int


def request(url: str, path: str, body: bytes) -> bytes:
    """A POST of JSON as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


class _Connection(asyncio.Protocol):
    def __init__(self, send: Callable[[int], bytes], until: float, taken: list[float], failures: list[bytes]):
        self._send, self._until, self._taken, self._failures = send, until, taken, failures
        self._buffer, self._number, self._began = b"", 0, 0.0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no child of it
        self._next()

    def _next(self) -> None:
        self._began = time.perf_counter()
        if self._began >= self._until:
            self._transport.close()
            return
        self._transport.write(self._send(self._number))
        self._number += 1

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self._buffer = b""
        self._taken.append(time.perf_counter() - self._began)
        if not head.startswith(b"HTTP/1.1 20"):
            self._failures.append(rest[:200])
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._failures.append(str(error).encode())
        if not self.done.done():
            self.done.set_result(None)


async def _drive(url: str, senders: Sequence[Callable[[int], bytes]], seconds: float) -> Load:
    loop, where = asyncio.get_running_loop(), urlsplit(url)
    host, port = str(where.hostname), int(where.port or 80)
    began = time.perf_counter()
    taken: list[float] = []
    failures: list[bytes] = []
    made = [
        await loop.create_connection(
            lambda send=send: _Connection(send, began + seconds, taken, failures),  # type: ignore[misc]
            host,
            port,
        )
        for send in senders
    ]
    async with asyncio.timeout(seconds + 30):
        await asyncio.gather(*(protocol.done for _, protocol in made))
    if failures or not taken:
        return Load(0.0, float("nan"), float("nan"), max(1, len(failures)))
    quantiles = torch.tensor(taken, dtype=torch.float64).quantile(torch.tensor([0.5, 0.99], dtype=torch.float64)) * 1000
    return Load(len(taken) / (time.perf_counter() - began), float(quantiles[0]), float(quantiles[1]), 0)


def drive(url: str, senders: Sequence[Callable[[int], bytes]], seconds: float) -> Load:
    """So many connections at once for some seconds; `senders[k](n)` is the n-th request of connection k."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_drive(url, senders, seconds))
    return uvloop.run(_drive(url, senders, seconds))
