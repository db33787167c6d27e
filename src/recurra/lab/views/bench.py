"""The bench: equations as they are typed, read without running them; what they are, a portrait of them, and a training."""

from __future__ import annotations

import inspect
import json
from collections import OrderedDict
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from recurra.cells.catalogue import CATALOGUE
from recurra.cells.grammar import LONGEST, read_cell
from recurra.cells.notation import Cell
from recurra.cells.picture import draw
from recurra.cells.stored import fingerprint, store_cell
from recurra.engines.describe import describe_cell
from recurra.engines.fused import gpu, kernels
from recurra.errors import EquationError, OptionError, RecurraError, RunError, choose_from
from recurra.lab import processes
from recurra.lab.replies import Folder, as_json, as_picture
from recurra.lecture.small_network import SmallNetwork, SmallPortrait
from recurra.runs.disk import reason, replace_file

router = APIRouter()
DRAWN = 90
"""Operations of a cell that is drawn as one types; a larger picture takes seconds and shows nothing."""
TASKS = {
    "tomita": ("strings of 0 and 1: is a string in Tomita's fourth language?", {"data.language": "4"}),
    "parity": ("parity: is the number of ones odd?", {}),
    "long-memory": ("the adding problem: the sum of two numbers far back", {"data.length": "50"}),
    "washing-machine": ("the washing machine as a state machine", {}),
}
"""What a cell of the bench is trained on: seconds to minutes on two cores. Recipe, a line, and its settings."""
CELLS = "cells"
Source = Annotated[str, Field(max_length=2 * LONGEST)]


class Given(BaseModel):
    source: Source


_read: OrderedDict[str, Cell] = OrderedDict()


def _cell(source: str) -> Cell:
    """The cell of a text; the last few are kept, since one asks about the same text many times."""
    if source not in _read:
        _read[source] = read_cell(source)
        while len(_read) > 32:
            _read.popitem(last=False)
    return _read[source]


@router.get("/catalogue")
async def catalogue() -> Response:
    """The text of every cell of the library, to start from, and the tasks that a cell can be trained on."""
    cells = {name: inspect.getsource(cell.equations) for name, cell in CATALOGUE.items()}
    return as_json({"cells": cells, "tasks": {name: about for name, (about, _) in TASKS.items()}})


@router.post("/read")
async def read(folder: Folder, given: Given) -> Response:
    """What the equations are, or where they are wrong."""

    def work() -> dict[str, Any]:
        try:
            cell = _cell(given.source)
        except EquationError as error:
            place = {"line": error.line, "column": error.column, "end": error.end_column, "remark": error.remark}
            return {"error_at": place}
        picture = draw(cell.graph) if len(cell.graph.nodes) <= DRAWN else None
        return describe_cell(cell).to_json() | {"picture": picture, "python": _python(given.source, cell.name)}

    return as_json(await folder.work(work))


def _python(source: str, name: str) -> str:
    text = source.replace("\\", "\\\\").replace('"""', r"\"\"\"").strip("\n")
    return (
        f'import recurra as rc\n\n{name} = rc.read_cell("""\n{text}\n""")\nprint({name}.graph)\n\n'
        f"net = rc.lecture.SmallNetwork({name}, units=2)\nprint(net.portrait())     # .plot() draws it\n"
    )


class Emitted(Given):
    language: Annotated[str, Field(max_length=10)] = "cpp"


@router.post("/kernel")
async def kernel(folder: Folder, given: Emitted) -> Response:
    """The kernel that is generated from the graph."""

    def work() -> str:
        graph = _cell(given.source).graph
        choose_from("language", given.language, ("cpp", "cuda", "triton"))
        return kernels.source_of(graph) if given.language == "cpp" else gpu.source_of(graph, given.language)

    try:
        return as_json({"text": await folder.work(work)})
    except EquationError:
        raise
    except RecurraError as error:
        return as_json({"text": f"No kernel: {error}"})


class Portrayed(Given):
    units: int = Field(2, ge=1, le=2)
    seed: int = Field(0, ge=0, lt=2**31)
    weights: dict[Annotated[str, Field(max_length=100)], Annotated[float, Field(ge=-1e6, le=1e6)]] = Field(
        default={}, max_length=600
    )
    input: float = Field(0.0, ge=-100, le=100)
    start: tuple[Annotated[float, Field(ge=-100, le=100)], Annotated[float, Field(ge=-100, le=100)]] = (0.8, 0.4)


def _portrait(given: Portrayed) -> tuple[SmallNetwork, SmallPortrait]:
    net = SmallNetwork(_cell(given.source), given.units, given.seed)
    known = {each.name for each in net.weights}
    net.set({name: value for name, value in given.weights.items() if name in known})  # others are of the text before
    return net, net.portrait(given.input, start=given.start)


@router.post("/portrait")
async def portrait(folder: Folder, given: Portrayed) -> Response:
    """The state space of one or two units, with the weights as they are set."""

    def work() -> dict[str, Any]:
        net, found = _portrait(given)
        return found.to_json() | {"weights": net.weights}

    return as_json(await folder.work(work))


@router.post("/portrait.svg")
async def portrait_picture(folder: Folder, given: Portrayed) -> Response:
    return await folder.work(lambda: as_picture(_portrait(given)[1], "svg"))


class Trained(Given):
    task: Annotated[str, Field(max_length=40)] = "tomita"
    steps: int = Field(300, ge=1, le=20_000)
    units: int = Field(16, ge=1, le=256)


@router.post("/train")
async def train(folder: Folder, given: Trained) -> Response:
    """Keep the cell as data, and train it in a process of its own."""

    def work() -> str:
        cell = _cell(given.source)
        choose_from("task", given.task, TASKS)
        file = keep_cell(folder, cell)
        settings = {
            **TASKS[given.task][1],
            "model.cell": str(file),
            "model.hidden_size": str(given.units),
            "training.steps": str(given.steps),
            "training.snapshots": "20",
            "training.validate_every": str(max(1, given.steps // 10)),
        }
        return processes.start(folder, given.task, [f"{key}={value}" for key, value in settings.items()])

    return as_json({"run": await folder.work(work)})


def keep_cell(folder: Folder, cell: Cell) -> Any:
    """The cell as JSON in the folder, named by its equations: an old run keeps its own when the text changes."""
    place = folder.path / processes.LOGS / CELLS
    file = place / f"{cell.name[:60]}-{fingerprint(cell)}.json"
    if "(" in str(file):
        raise OptionError(f"{folder.path} has brackets in its name, which a setting cannot hold. Use another folder.")
    try:
        place.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(store_cell(cell)).encode())
    except OSError as error:
        raise RunError(f"the cell cannot be kept in {place}: {reason(error)}.") from error
    return file
