"""How the server refuses: one JSON shape, `{"error": {"code": …, "message": …}}`, and never a traceback."""

from __future__ import annotations

import json
from typing import Any

from recurra.results import to_plain

CODES = {
    400: "bad_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "rate_limited",
    500: "internal",
    503: "unavailable",
}


class ApiError(Exception):
    """A request that is refused, with the status and the line that the client gets."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"code": CODES.get(self.status, "error"), "message": self.message}}


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_bytes(value: Any) -> bytes:
    """JSON in ASCII: what a client sent and is told back may hold characters that UTF-8 has no bytes for. NaN becomes null."""
    try:
        return _encode(value).encode("ascii")
    except ValueError:
        return _encode(to_plain(value)).encode("ascii")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def from_bytes(data: bytes) -> Any:
    """JSON in UTF-8; NaN and Infinity are refused, as is what is nested too deeply to be read."""
    try:
        return _decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise ApiError(400, f"the body is not JSON: {told}.") from None
