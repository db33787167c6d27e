"""Who is answered, and with what headers: the outermost layer of the lab.

The token is the first part of every path, `/TOKEN/…`. So an address is all that a page, an event stream and an iframe in a
notebook need; there is no cookie that other servers on this machine would be sent, and no page of another site can name
an address of the lab. `Host` and `Origin` are checked besides: a name that is re-bound to 127.0.0.1 is refused.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = 1_000_000
"""The most bytes of a request's body."""
TOO_LARGE = f"the request is larger than {BODY:,} bytes. Send less."
METHODS = ("GET", "HEAD", "POST")
NOTEBOOKS = "'self' http://127.0.0.1:* http://localhost:*"
"""Pages that may show the lab inside them: notebooks on this machine."""
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        f"frame-ancestors {NOTEBOOKS}"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_LOG = logging.getLogger("recurra.lab")


class Guard:
    """Lets a request through to `app` if it names this server, comes from its own page and bears the token."""

    def __init__(self, app: App, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": _with_headers(message.get("headers", []))}
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await _reply(send_guarded, *refused)
            return
        path = scope["path"][len(self.token) + 1 :]
        if not path:
            await _reply(send_guarded, 307, "the page is one slash further.", {"location": f"/{self.token}/"})
            return
        inner = {**scope, "path": path, "raw_path": path.encode()}
        try:
            await self.app(inner, _limited(receive), send_guarded)
        except TooLarge:
            if not started:
                await _reply(send_guarded, 413, TOO_LARGE)
        except Exception as error:  # the last net: a page gets one line, the log has the rest
            _LOG.exception("%s %s", scope["method"], path)
            if not started:
                await _reply(send_guarded, 500, f"the lab failed: {type(error).__name__}. Its log says more.")

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """A status and a line for a request that is not let through."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = headers.get(b"origin")
        if host not in self.hosts:
            return 400, "the lab answers on its own address only. Open the address that it printed."
        if origin is not None and origin.decode("latin-1").lower() not in self.origins:
            return 403, "this request comes from another site's page, which the lab does not answer."
        given = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 403, "the lab answers to its token only. Open the address that it printed."
        if scope["method"] not in METHODS:
            return 405, f"the lab answers {', '.join(METHODS)}."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > BODY:
            return 413, TOO_LARGE
        return None


class TooLarge(Exception):
    """More bytes came than were announced or are allowed."""


def _limited(receive: Receive) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY:
            raise TooLarge
        return message

    return counted


def _with_headers(given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    known = {name.lower() for name, _ in given}
    return [*given, *((n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known)]


async def _reply(send: Send, status: int, line: str, headers: dict[str, str] | None = None) -> None:
    body = json.dumps({"error": line}).encode()
    fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    start = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
