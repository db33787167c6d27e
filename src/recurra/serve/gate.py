"""What stands before the routes, in plain ASGI: limits, the body, the hot path, what is counted, and the last word on errors."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from recurra.serve.app import make_app, step_session
from recurra.serve.errors import ApiError, from_bytes, to_bytes
from recurra.serve.limits import Headers, Limits
from recurra.serve.service import Service

log = logging.getLogger("recurra.serve")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_SECONDS = 20
"""How long a client may take to send a body."""
SESSIONS, STEP = "/v1/sessions/", "/step"
ROUTES = {
    "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/models", "/v1/predict", "/v1/generate", "/v1/forecast",
    "/v1/translate", "/v1/score", "/v1/sessions", "/v1/steps",
}  # fmt: skip


class Gate:
    """The application that uvicorn runs."""

    def __init__(self, make_service: Callable[[], Service], *, owns_process: bool = False):
        self._make, self._owns_process = make_service, owns_process
        self.service: Service | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:  # a WebSocket
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            service = self.service = self._make()
            self._app, self._limits = make_app(service), Limits(service.settings)
            self._app.openapi()  # made once, now
            await service.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        if self._owns_process:  # a full collection looks at every object of torch, and holds up all clients meanwhile
            gc.collect()
            gc.freeze()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await service.stop()
        except Exception as error:
            log.error("sessions could not be saved: %s", error)
            await send({"type": "lifespan.shutdown.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        assert self.service is not None
        path, method = scope["path"], scope["method"]
        status = 500
        started = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
            await send(message)

        hot = path.startswith(SESSIONS) and path.endswith(STEP) and method == "POST"
        try:
            headers: Headers = dict(scope["headers"])
            client = scope.get("client")
            self._limits.check(path, headers, client[0] if client else "")
            if hot:
                body = await self._read(headers, receive)
                id = path[len(SESSIONS) : -len(STEP)]
                await _send(watched, 200, await step_session(self.service, id, body))
            elif method in ("POST", "PUT", "PATCH"):
                body = await self._read(headers, receive)
                from_bytes(body)  # what is no JSON is refused here, in one way
                await self._app(scope, _again(body, receive), watched)
            else:
                await self._app(scope, receive, watched)
        except ApiError as error:
            if not started:
                await _send(watched, error.status, to_bytes(error.body), error.headers)
        except Exception as error:  # our fault: the log has it, the client has one line
            log.error("%s %s failed: %s: %s", method, path[:200], type(error).__name__, str(error)[:500], exc_info=True)
            if not started:
                told = ApiError(500, "the server failed. Its log says why.")
                await _send(watched, 500, to_bytes(told.body))
        finally:
            self.service.metrics.request(
                f"{SESSIONS}ID{STEP}" if hot else _route(path), status, time.perf_counter() - began
            )

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """The body, of a type and size that is taken, sent in time."""
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":  # a form on a stranger's page cannot send this type
            raise ApiError(415, "send JSON, with `Content-Type: application/json`.")
        self._limits.check_size(headers)
        body, more = b"", True
        while more:
            message = await self._receive(receive)
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > self._limits.max_body:
                raise self._limits.too_large()
        return body

    async def _receive(self, receive: Receive) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
        except TimeoutError:
            raise ApiError(
                408, f"the body did not come within {BODY_SECONDS} seconds.", {"Connection": "close"}
            ) from None
        if message["type"] == "http.disconnect":
            raise ApiError(400, "the client left before its body was whole.")
        return message


def _again(body: bytes, receive: Receive) -> Receive:
    """What the routes receive: the body that was read, then whatever comes."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return receive_again


async def _send(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    told = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    told += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


def _route(path: str) -> str:
    """A path as metrics count it: few, whatever clients ask for."""
    if path in ROUTES:
        return path
    return f"{SESSIONS}ID" if path.startswith(SESSIONS) else "other"
