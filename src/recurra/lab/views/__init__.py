"""The views, one file each. A view has a `router`; its paths begin with `api/NAME/`."""

from __future__ import annotations

from fastapi import APIRouter

from recurra.lab.views import generate, runs, time

VIEWS: dict[str, APIRouter] = {
    "runs": runs.router,
    "time": time.router,
    "generate": generate.router,
}
"""The router of every view, by the name that stands in its addresses; `page/views.js` has the other half of each."""
