"""The app: the views below `api/`, the page's own files, and errors as one line."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from recurra.errors import RecurraError
from recurra.lab.folder import LabFolder
from recurra.lab.security import TOO_LARGE, Guard, TooLarge
from recurra.lab.views import VIEWS

PAGE = Path(__file__).parent / "page"


def make_app(folder: LabFolder, token: str, port: int) -> Guard:
    """The lab of a folder, behind its guard."""
    app = FastAPI(title="Recurra lab", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.folder = folder
    for name, router in VIEWS.items():
        app.include_router(router, prefix=f"/api/{name}")
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    app.exception_handler(RecurraError)(_user_error)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http_error)
    app.exception_handler(Exception)(_failed)
    return Guard(app, token, port)


def _line(text: str, status: int) -> Response:
    return JSONResponse({"error": " ".join(text.split())}, status)


async def _user_error(request: Request, error: RecurraError) -> Response:
    return _line(str(error), 400)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    found = "; ".join(f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}" for each in error.errors())
    return _line(f"the request cannot be read: {found[:400]}.", 422)


async def _http_error(request: Request, error: HTTPException) -> Response:
    if isinstance(error.__cause__, TooLarge):  # FastAPI makes a 400 of whatever goes wrong while it reads a body
        return _line(TOO_LARGE, 413)
    return _line(f"the lab has nothing there ({error.detail}).", error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return _line(f"the lab failed: {type(error).__name__}. Its log says more.", 500)
