"""Gradients: ∂h_t/∂h_{t−k} for all t and k as weights, cell or length change; the scalar case; what a truncation keeps."""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from recurra.analysis.gradient_map import GradientMap, gradient_map
from recurra.cells.catalogue import CATALOGUE
from recurra.errors import choose_from
from recurra.lab.replies import Folder, as_json, as_picture, open_line
from recurra.layers.initial import spectral_radius
from recurra.layers.recurrent import Recurrent
from recurra.lecture.pairs import kept_pairs
from recurra.lecture.scalar_case import scalar_gradient
from recurra.tasks.run import Run

router = APIRouter()
MOST_STEPS, MOST_UNITS = 64, 24
Text = Annotated[str, Field(max_length=255)]


class Asked(BaseModel):
    """A cell with random weights, or a run with its own."""

    cell: Text = "elman"
    run: Text = ""
    radius: float = Field(1.0, gt=0, le=4)
    units: int = Field(8, ge=1, le=MOST_UNITS)
    steps: int = Field(24, ge=2, le=MOST_STEPS)
    drive: float = Field(0.5, ge=0, le=4)
    seed: int = Field(0, ge=0, lt=2**31)
    truncation: Annotated[str, Field(max_length=20)] = "none"


def _of_cell(asked: Asked) -> GradientMap:
    cell = CATALOGUE[choose_from("cell", asked.cell, CATALOGUE)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(asked.seed)
        layer = Recurrent(cell, 2, asked.units, init=spectral_radius(asked.radius))
        x = asked.drive * torch.randn(asked.steps, 2)
    return gradient_map(layer, x)


def _of_run(run: Run, steps: int) -> GradientMap:
    probe = run.probe(steps)
    return gradient_map(probe.layer, probe.x[0, :steps])


async def _found(folder: Folder, asked: Asked) -> GradientMap:
    if asked.run:
        return await folder.compute(asked.run, lambda run: _of_run(run, asked.steps))
    return await folder.work(lambda: _of_cell(asked))


def _python(folder: Folder, asked: Asked) -> str:
    if asked.run:
        opened = open_line(folder, asked.run)
        lines = f"probe = run.probe({asked.steps})\nlayer, x = probe.layer, probe.x[0, :{asked.steps}]"
    else:
        opened = "import recurra as rc\nimport torch"
        lines = (
            f"torch.manual_seed({asked.seed})\n"
            f"layer = rc.Recurrent({asked.cell!r}, 2, {asked.units}, init=rc.spectral_radius({float(asked.radius)!r}))\n"
            f"x = {float(asked.drive)!r} * torch.randn({asked.steps}, 2)"
        )
    return (
        f"{opened}\n\n{lines}\nfound = rc.analysis.gradient_map(layer, x)\nprint(found)     # found.plot() draws it\n"
        f"print(rc.lecture.kept_pairs({asked.truncation!r}, {asked.steps}))\n"
    )


@router.post("/map")
async def pairs(folder: Folder, asked: Asked) -> Response:
    """The norms for all pairs, and how far back the truncation lets each step's loss reach."""
    kept = kept_pairs(asked.truncation, asked.steps)
    found = await _found(folder, asked)
    logs = [
        [value / math.log(10) if value is not None else None for value in row] for row in found.to_json()["log_norms"]
    ]
    has_matrix = bool(asked.run) or bool(CATALOGUE[asked.cell].graph.matrices)
    return as_json(
        {"steps": found.steps, "summary": str(found), "logs": logs, "scaled": has_matrix}
        | {"kept": kept.to_json(), "kept_summary": str(kept), "python": _python(folder, asked)}
    )


@router.post("/picture")
async def picture(folder: Folder, asked: Asked) -> Response:
    found = await _found(folder, asked)
    return await folder.work(lambda: as_picture(found, "svg"))


class Scalar(BaseModel):
    weight: float = Field(0.9, ge=-10, le=10)
    input: float = Field(0.0, ge=-10, le=10)
    activation: Annotated[str, Field(max_length=20)] = "tanh"
    steps: int = Field(50, ge=1, le=500)


@router.post("/scalar")
async def scalar(asked: Scalar) -> Response:
    """One unit: the product of its factors over k."""
    found = scalar_gradient(asked.weight, asked.activation, steps=asked.steps, x=asked.input)
    logs = [math.log10(abs(value)) if value else None for value in found]
    call = f"rc.lecture.scalar_gradient({asked.weight:g}, {asked.activation!r}, steps={asked.steps}, x={asked.input:g})"
    return as_json({"logs": logs, "python": f"import recurra as rc\n\nprint({call})\n"})


@router.get("/cells")
async def cells() -> Response:
    """The catalogue: its cells by name, with a line about each."""
    about: dict[str, Any] = {
        name: " ".join((cell.__doc__ or "").split("\n\n")[0].split()) for name, cell in CATALOGUE.items()
    }
    return as_json(about)
