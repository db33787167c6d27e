"""Who may ask, and how much: the API key, the rate of a client, the host that a browser was told."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict

from recurra.serve.errors import ApiError
from recurra.serve.settings import ServeSettings

CLIENTS = 10_000
"""Client addresses whose rate is remembered."""
OPEN = ("/healthz", "/readyz")
"""What a probe asks without a key."""
LOCAL = ("localhost", "127.0.0.1", "[::1]")

Headers = dict[bytes, bytes]


class Limits:
    """What is checked before a request is read."""

    def __init__(self, settings: ServeSettings):
        self._rate, self.max_body = settings.rate, settings.max_body
        self._key = None if settings.api_key is None else settings.api_key.encode()
        # a page from elsewhere can have a browser ask this machine under a name of its own, which then stands in Host
        self._hosts = (*LOCAL, settings.host) if settings.is_local and self._key is None else None
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, path: str, headers: Headers, client: str) -> None:
        """Refuse what may not go on."""
        if self._hosts is not None:
            self._check_host(headers.get(b"host", b""))
        if path in OPEN:
            return
        if self._key is not None:
            self._check_key(headers)
        if self._rate:
            self._check_rate(client)

    def check_size(self, headers: Headers) -> None:
        """Refuse a body that says it is too large before it is read."""
        told = headers.get(b"content-length", b"")
        if told.isdigit() and (len(told) > 12 or int(told) > self.max_body):
            raise self.too_large()

    def too_large(self) -> ApiError:
        return ApiError(
            413, f"the body may have {self.max_body:,} bytes. Send less at a time.", {"Connection": "close"}
        )

    def _check_host(self, host: bytes) -> None:
        name = host.decode("latin-1")
        bare = name if name.endswith("]") else name.rpartition(":")[0] or name
        if self._hosts is not None and bare not in self._hosts:
            raise ApiError(400, "this server answers under its own address only. Ask it as 127.0.0.1 or localhost.")

    def _check_key(self, headers: Headers) -> None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            given = headers.get(b"x-api-key", b"")
        if not hmac.compare_digest(given.strip(), self._key or b""):
            raise ApiError(
                401,
                "the API key is missing or wrong: send `Authorization: Bearer KEY`.",
                {"WWW-Authenticate": "Bearer"},
            )

    def _check_rate(self, client: str) -> None:
        """A bucket of one second's requests (at least one), which fills at the rate."""
        now, most = time.monotonic(), max(1.0, self._rate)
        left, last = self._clients.pop(client, (most, now))
        left = min(most, left + (now - last) * self._rate)
        self._clients[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._clients) > CLIENTS:
            self._clients.popitem(last=False)
        if left < 1:
            wait = max(1, round((1 - left) / self._rate + 0.5))
            raise ApiError(429, f"at most {self._rate:g} requests a second. Wait a little.", {"Retry-After": str(wait)})
