"""What views share: the folder as an argument, and replies as JSON, as bytes, as a picture, as events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response, StreamingResponse

from recurra.errors import RecurraError
from recurra.lab.folder import LabFolder
from recurra.plots.figure import to_bytes
from recurra.results import Result, to_plain


def _folder(request: Request) -> LabFolder:
    found: LabFolder = request.app.state.folder
    return found


Folder = Annotated[LabFolder, Depends(_folder)]
"""The argument of a view that needs the runs."""

PICTURES = {"svg": "image/svg+xml", "png": "image/png"}


def to_json(value: Any) -> bytes:
    """As a page reads it: NaN and ±inf are null."""
    return json.dumps(to_plain(value), allow_nan=False, separators=(",", ":")).encode()


def as_json(value: Any) -> Response:
    return Response(to_json(value), media_type="application/json")


def as_picture(result: Result, ending: str, **options: Any) -> Response:
    """The picture of a result, `svg` or `png`, as `result.plot()` draws it."""
    return Response(to_bytes(result.plot(**options), ending), media_type=PICTURES[ending])


def open_line(folder: LabFolder, name: str, other: str = "run") -> str:
    """The lines of Python that open a run."""
    return f"import recurra as rc\n\n{other} = rc.open({str(folder.path / name)!r})"


def as_events(events: AsyncIterator[Any]) -> Response:
    """Server-sent events, each a value as JSON; an error of the user is the last one."""

    async def lines() -> AsyncIterator[bytes]:
        try:
            async for event in events:
                yield b": \n\n" if event is None else b"data: " + to_json(event) + b"\n\n"
        except RecurraError as error:
            yield b"data: " + to_json({"error": str(error)}) + b"\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")
