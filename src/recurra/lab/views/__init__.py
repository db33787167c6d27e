"""The views, one file each. A view has a `router`; its paths begin with `api/NAME/`."""

from __future__ import annotations

from fastapi import APIRouter

from recurra.lab.views import bench, generate, gradients, runs, space, time

VIEWS: dict[str, APIRouter] = {
    "runs": runs.router,
    "bench": bench.router,
    "time": time.router,
    "gradients": gradients.router,
    "space": space.router,
    "generate": generate.router,
}
"""The router of every view, by the name that stands in its addresses; `page/views.js` has the other half of each."""
