"""Runs: all of a folder, what they are and how far they are."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from recurra.lab.replies import Folder, as_json
from recurra.runs.folder import list_runs
from recurra.tasks.run import Run

router = APIRouter()


@router.get("/list")
async def listed(folder: Folder) -> Response:
    """Every run with its recipe and what it can do, the one that was started last first."""

    def work() -> list[dict[str, object]]:
        return [{"name": each.path.name} | Run(each).summary() for each in list_runs(folder.path)]

    return as_json({"folder": str(folder.path), "selected": folder.selected, "runs": await folder.work(work)})
