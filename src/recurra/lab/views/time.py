"""Through time: a text, every state and gate while a network reads it, one unit of them, and the cell at work step by step."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field
from torch import Tensor

from recurra.analysis.neurons import read_unit
from recurra.analysis.through_time import ThroughTime
from recurra.analysis.trace_table import TraceTable
from recurra.cells.picture import draw
from recurra.errors import DataError, OptionError, RecurraError
from recurra.lab.folder import LabFolder
from recurra.lab.replies import Folder, as_json, as_picture, open_line
from recurra.results import to_plain
from recurra.tasks.capabilities import Probes, ReadsText, find, offers
from recurra.tasks.run import Run

router = APIRouter()
Name = Annotated[str, Field(max_length=255)]
LONGEST = 2000
"""Characters of a text, or steps of another input."""
TABLED = 200
"""Steps for which the table of the cell is made."""
STUDIED = 20_000
"""Characters over which units are searched, and contexts of a unit are looked for."""
DOCUMENTS = 50


class Asked(BaseModel):
    """A run, and what it reads: a text; or `document`, the number of one that it never saw; or else typical input."""

    run: Name
    text: Annotated[str, Field(max_length=LONGEST)] | None = None
    document: Annotated[int, Field(ge=0)] | None = None
    start: Annotated[int, Field(ge=0)] = 0


class AskedSeries(Asked):
    """And a state or gate by name; the first one otherwise."""

    series: Annotated[str, Field(max_length=80)] | None = None


class AskedUnit(Asked):
    unit: Annotated[str, Field(max_length=80)]


class AskedStep(Asked):
    step: Annotated[int, Field(ge=0)] = 0
    layer: Annotated[int, Field(ge=0)] = 0


def text_of(run: Run, asked: Asked) -> str | None:
    """The text that was typed, or a part of a held-out one; `None` for a network that reads none."""
    task: Any = run.task
    if asked.text is not None or not offers(task, ReadsText):
        return asked.text if offers(task, ReadsText) else None
    if asked.document is None:
        raise OptionError("give a text to read, or choose one of the data.")
    documents = task.held_out
    if asked.document >= len(documents):
        raise DataError(f"there is no document {asked.document}; the held-out part has {len(documents)}.")
    return str(documents[asked.document].text[asked.start : asked.start + LONGEST])


def read(folder: LabFolder, run: Run, asked: Asked) -> tuple[str | None, ThroughTime]:
    """The text, and the network over it."""
    text = text_of(run, asked)
    return text, folder.remember(run, ("through time", text), lambda: run.through_time(text))


def series_of(folder: LabFolder, run: Run, asked: AskedSeries) -> tuple[str, Tensor]:
    """A state or gate over what is read, `[T, H]`, with its name."""
    found = read(folder, run, asked)[1]
    name = asked.series or next(iter(found.values))
    return name, found.of(name)


def python_lines(folder: LabFolder, asked: Asked, text: str | None, *lines: str) -> str:
    known = () if text is None else (f"text = {text!r}",)
    return "\n".join((open_line(folder, asked.run), *known, *lines))


@router.get("/texts")
async def texts(folder: Folder, run: Name) -> Response:
    """What can be read: the documents that the model never saw, and the equations of the cell."""

    def work(run: Run) -> dict[str, Any]:
        task: Any = run.task
        reads = offers(task, ReadsText)
        if not reads and not offers(task, Probes):
            raise OptionError(f"{run.settings.name} has no recurrent layers that read one sequence step by step.")
        documents, why = [], ""
        if reads:
            try:
                documents = [{"name": each.name, "length": len(each.text)} for each in task.held_out[:DOCUMENTS]]
            except RecurraError as error:  # a run is looked at without its data too
                why = str(error)
        graph = _graph(run)
        return {"reads_text": reads, "documents": documents, "why": why, "equations": graph.equations()}

    return as_json(await folder.compute(run, work))


@router.post("/read")
async def read_text(folder: Folder, asked: Asked) -> Response:
    """The tokens, what is predicted after each, and the names of states and gates."""

    def work(run: Run) -> dict[str, Any]:
        text, found = read(folder, run, asked)
        lines = python_lines(
            folder, asked, text, f"found = run.through_time({'' if text is None else 'text'})", "print(found)"
        )
        return found.to_json() | {"text": text, "python": lines}

    return as_json(await folder.compute(asked.run, work))


@router.post("/values")
async def values(folder: Folder, asked: AskedSeries) -> Response:
    """A state or gate as numbers: 32-bit floats, unit after unit."""

    def work(run: Run) -> bytes:
        found = series_of(folder, run, asked)[1]
        return np.ascontiguousarray(found.T.numpy(), dtype="<f4").tobytes()

    return Response(await folder.compute(asked.run, work), media_type="application/octet-stream")


@router.post("/values.csv")
async def values_as_csv(folder: Folder, asked: AskedSeries) -> Response:
    """A state or gate as a table: a row for each step."""

    def work(run: Run) -> str:
        name, found = series_of(folder, run, asked)
        head = ",".join(["step", *(f"{name}.{k}" for k in range(found.shape[1]))])
        rows = (",".join([str(t), *(f"{value:.6g}" for value in row)]) for t, row in enumerate(found.tolist()))
        return "\n".join([head, *rows]) + "\n"

    return Response(await folder.compute(asked.run, work), media_type="text/csv")


@router.post("/picture.svg")
async def picture(folder: Folder, asked: AskedSeries) -> Response:
    """A state or gate as `plot` draws it."""
    return await folder.compute(
        asked.run, lambda run: as_picture(read(folder, run, asked)[1], "svg", name=asked.series)
    )


@router.post("/unit")
async def unit(folder: Folder, asked: AskedUnit) -> Response:
    """One unit: its values over the text, what is lost without it, and where in held-out text it is highest and lowest."""

    def work(run: Run) -> dict[str, Any]:
        text, _ = read(folder, run, asked)
        if text is None:
            raise OptionError("a unit is looked at over text; this network reads none.")
        lost = run.ablate(asked.unit, text)
        found: dict[str, Any] = {"unit": asked.unit, "ablation": lost.to_json()}
        source: Any = [text]
        with suppress(RecurraError):
            source = [each.text for each in _task(run).held_out] or source
        highest, lowest = folder.remember(
            run, ("contexts", asked.unit), lambda: run.unit(asked.unit, text=source, size=STUDIED).contexts()
        )
        lines = python_lines(
            folder,
            asked,
            text,
            f"print(run.ablate({asked.unit!r}, text).rise)",
            f"highest, lowest = run.unit({asked.unit!r}, size={STUDIED}).contexts()",
        )
        return found | {"highest": to_plain(highest), "lowest": to_plain(lowest), "python": lines}

    return as_json(await folder.compute(asked.run, work))


@router.post("/tracks")
async def tracks(folder: Folder, asked: AskedUnit) -> Response:
    """What a unit follows in held-out text, beside controls. The search is made once for a run."""

    def work(run: Run) -> dict[str, Any]:
        known = read_unit(asked.unit, run.model.recurrent)
        study = folder.remember(run, "units", lambda: run.units(size=STUDIED))
        rows = [to_plain(each) | {"tracked": each.is_tracked} for each in study.tracked(known)]
        lines = f"study = run.units(size={STUDIED})\nprint(study)"
        return {
            "rows": rows,
            "summary": study.summary,
            "best": {each.label: str(each.best.unit) for each in study.found},
            "python": f"{open_line(folder, asked.run)}\n{lines}",
        }

    return as_json(await folder.compute(asked.run, work))


@router.post("/step")
async def step(folder: Folder, asked: AskedStep) -> Response:
    """The cell at work at one step: every vector that its equations name, whole."""

    def work(run: Run) -> dict[str, Any]:
        text, _ = read(folder, run, asked)
        if text is None:
            raise OptionError("the table of the cell is for language models; this network reads no text.")
        made: TraceTable = folder.remember(
            run, ("table", text, asked.layer), lambda: run.table(text[:TABLED], asked.layer)
        )
        if asked.step >= len(made.rows):
            raise OptionError(f"the table has {len(made.rows)} steps: the first {TABLED} characters of a text.")
        row = to_plain(made.rows[asked.step])
        short = f"print(run.table(text[:{TABLED}], layer={asked.layer}))"
        return {"row": row, "steps": len(made.rows), "python": python_lines(folder, asked, text, short)}

    return as_json(await folder.compute(asked.run, work))


@router.get("/cell.svg")
async def cell(folder: Folder, run: Name) -> Response:
    """The picture of the cell."""
    made = await folder.compute(run, lambda run: draw(_graph(run)))
    return Response(made, media_type="image/svg+xml")


def _task(run: Run) -> Any:
    return run.task


def _graph(run: Run) -> Any:
    model = run.model
    layer = (
        model.recurrent if hasattr(model, "recurrent") else find(run.task, Probes, "through_time").probe(model, 1).layer
    )
    return layer.cell.graph
