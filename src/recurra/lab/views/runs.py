"""Runs: all of a folder as they train, compared; and trainings that are started, stopped and resumed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from recurra.errors import OptionError
from recurra.lab import processes
from recurra.lab.live import Live, differing
from recurra.lab.replies import Folder, as_events, as_json, open_line
from recurra.runs.log import POINTS
from recurra.tasks.capabilities import verbs_of
from recurra.tasks.catalogue import RECIPES, find_recipe
from recurra.tasks.run import Run
from recurra.tasks.settings import declarations

router = APIRouter()
MOST = 32
"""Runs that are compared at once."""
Name = Annotated[str, Field(max_length=255)]
Names = Annotated[list[Name], Query(max_length=MOST)]


async def _live(request: Request, folder: Folder) -> Live:
    """One for the whole lab, made when it is first asked for."""
    state = request.app.state
    if not hasattr(state, "live"):
        state.live = Live(folder)
    live: Live = state.live
    await live.look()
    return live


@router.get("/list")
async def listed(request: Request, folder: Folder) -> Response:
    """Every run in a line, the one that was started last first."""
    live = await _live(request, folder)
    runs = [each.summary for each in live.runs.values()]
    return as_json({"folder": str(folder.path), "selected": folder.selected, "runs": runs})


@router.get("/live")
async def live(request: Request, folder: Folder) -> Response:
    """Every run at first, then those that change."""
    return as_events((await _live(request, folder)).follow())


@router.get("/about")
async def about(folder: Folder, run: Name) -> Response:
    """What can be done with a run."""

    def work(run: Run) -> dict[str, Any]:
        return {"about": str(run), "verbs": verbs_of(run.task), "unit": run.task.unit}

    return as_json(await folder.compute(run, work))


@router.get("/curves")
async def curves(request: Request, folder: Folder, run: Names, metric: str = "loss", points: int = POINTS) -> Response:
    """One metric of several runs; of a run that lacks it, nothing. And the names of all metrics that they have."""
    if not 2 <= points <= 5000:
        raise OptionError(f"points must lie between 2 and 5000; got {points}.")
    found = await _live(request, folder)
    logs = {name: found.log(name) for name in run}

    def work() -> dict[str, Any]:
        lines = {name: log.curve(metric, points) for name, log in logs.items() if metric in log.names}
        return {
            "curves": {name: {"steps": each.steps, "mean": each.mean} for name, each in lines.items()},
            "metrics": sorted({name for log in logs.values() for name in log.names}),
            "python": _python(folder, run, metric, points),
        }

    return as_json(await folder.work(work))


def _python(folder: Folder, names: list[str], metric: str, points: int) -> str:
    return (
        "import recurra as rc\n\n"
        f"for name in {names!r}:\n"
        f"    curve = rc.open(f{str(folder.path) + '/{name}'!r}).curve({metric!r}, points={points})\n"
        "    print(name, curve.steps, curve.mean)     # curve.plot() draws it\n"
    )


@router.get("/compared")
async def compared(request: Request, folder: Folder, run: Names) -> Response:
    """The settings in which runs differ, and the scores that were kept."""
    found = await _live(request, folder)
    rows = differing({name: found.settings(name) for name in run})
    scores = {}
    for name in run:
        kept = await folder.compute(name, lambda run: run.kept_scores() if run.is_trained else None)
        scores[name] = None if kept is None else kept.to_json()
    return as_json({"settings": rows, "scores": scores})


class OneRun(BaseModel):
    run: Name


@router.post("/evaluate")
async def evaluate(folder: Folder, asked: OneRun) -> Response:
    """Scores beside baselines, which the run keeps."""
    found = await folder.compute(asked.run, lambda run: run.evaluate().to_json())
    return as_json(found | {"python": f"{open_line(folder, asked.run)}\nprint(run.evaluate())"})


@router.get("/recipes")
async def recipes() -> Response:
    """Every recipe with a line about it."""
    return as_json({name: recipe.about for name, recipe in RECIPES.items()})


@router.get("/recipe")
async def recipe(name: Name) -> Response:
    """The settings of a recipe as they are declared."""
    found = find_recipe(name)
    settings = [each for each in declarations(found.settings) if each.key != "name"]
    return as_json({"name": name, "about": found.about, "reads_data": found.task.data_kind, "settings": settings})


class Start(BaseModel):
    recipe: Name
    settings: dict[Annotated[str, Field(max_length=80)], Annotated[str, Field(max_length=2000)]] = Field(
        default={}, max_length=100
    )
    name: Annotated[str, Field(max_length=80)] = ""


@router.post("/start")
async def start(folder: Folder, asked: Start) -> Response:
    """Train in a process of its own."""
    assignments = [f"{key}={value}" for key, value in asked.settings.items()]
    name = await folder.work(lambda: processes.start(folder, asked.recipe, assignments, asked.name))
    return as_json({"run": name})


@router.post("/stop")
async def stop(folder: Folder, asked: OneRun) -> Response:
    """Ask a training to save and stop."""
    processes.stop(folder, asked.run)
    return as_json({"run": asked.run})


@router.post("/resume")
async def resume(folder: Folder, asked: OneRun) -> Response:
    """Go on with a run that was stopped."""
    await folder.work(lambda: processes.resume(folder, asked.run))
    return as_json({"run": asked.run})


@router.get("/printed")
async def printed(folder: Folder, run: Name) -> Response:
    """What a training that the lab started has printed last."""
    return as_json({"text": processes.log_of(folder, run)})
