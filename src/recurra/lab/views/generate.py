"""Generate: text as it is sampled, translations with their beam and attention, forecasts with intervals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from recurra.errors import OptionError, RecurraError
from recurra.lab.folder import LabFolder
from recurra.lab.replies import Folder, as_events, as_json, as_picture, open_line
from recurra.results import Result, to_plain
from recurra.tasks.capabilities import verbs_of
from recurra.tasks.results import Forecast, Translation
from recurra.tasks.run import Run

router = APIRouter()
Name = Annotated[str, Field(max_length=255)]
Text = Annotated[str, Field(max_length=2000)]


class Sampling(BaseModel):
    run: Name
    prime: Text = ""
    length: Annotated[int, Field(ge=1, le=100_000)] = 400
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    greedy: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    def options(self) -> dict[str, Any]:
        """The arguments that are not the default."""
        given = self.model_dump(include={"temperature", "top_k", "top_p", "greedy", "seed"}, exclude_defaults=True)
        return {"prime": self.prime, "length": self.length} | given


class Translating(BaseModel):
    run: Name
    text: Text
    beam: Annotated[int, Field(ge=1, le=16)] = 4
    length_power: Annotated[float, Field(ge=0, le=4)] = 1.0


class Forecasting(BaseModel):
    run: Name
    steps: Annotated[int, Field(ge=1, le=2000)] = 100


@router.get("/about")
async def about(folder: Folder, run: Name) -> Response:
    """What a run can generate, and what it gives for a few inputs that it never saw."""

    def work(run: Run) -> dict[str, Any]:
        examples = None
        with suppress(RecurraError):  # a run is looked at without its data too
            found = folder.remember(run, "examples", run.examples)
            examples = None if found is None else {"columns": found.columns, "rows": found.rows}
        return {"verbs": verbs_of(run.task), "examples": examples}

    return as_json(await folder.compute(run, work))


def _call(name: str, options: dict[str, Any]) -> str:
    return f"run.{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"


@router.post("/sample")
async def sample(folder: Folder, asked: Sampling) -> Response:
    """Text as it is sampled; the last event has the lines that give the same."""
    options = asked.options()

    async def events() -> AsyncIterator[dict[str, Any]]:
        async for text in folder.stream(asked.run, lambda run: run.generate(**options), at_once=2):
            yield {"text": text}
        yield {"done": True, "python": f"{open_line(folder, asked.run)}\nprint({_call('sample', options)})"}

    return as_events(events())


def _translated(folder: LabFolder, run: Run, asked: Translating) -> Translation:
    key = ("translation", asked.text, asked.beam, asked.length_power)
    how = {"beam": asked.beam, "n_best": asked.beam, "length_power": asked.length_power}
    return folder.remember(run, key, lambda: run.translate(asked.text, **how))


@router.post("/translate")
async def translate(folder: Folder, asked: Translating) -> Response:
    """The translations that a beam finds, the tree of the beam, and what the best one attended to."""

    def work(run: Run) -> dict[str, Any]:
        found = _translated(folder, run, asked)
        tree = run.beam(asked.text, asked.beam, asked.length_power)
        attention = None if found.attention is None else to_plain(found.attention)
        how = {"beam": asked.beam, "n_best": asked.beam, "length_power": asked.length_power}
        lines = (
            open_line(folder, asked.run),
            f"found = run.translate({asked.text!r}, {', '.join(f'{k}={v!r}' for k, v in how.items())})",
            "print(found)",
            f"print(run.beam({asked.text!r}, width={asked.beam}, length_power={asked.length_power}))",
        )
        nodes = [to_plain(node) | {"row": y} for node, y in zip(tree.nodes, tree.rows(), strict=True)]
        return found.to_json() | {"attention": attention, "nodes": nodes, "python": "\n".join(lines)}

    return as_json(await folder.compute(asked.run, work))


@router.post("/beam.svg")
async def beam_picture(folder: Folder, asked: Translating) -> Response:
    return await folder.compute(
        asked.run, lambda run: as_picture(run.beam(asked.text, asked.beam, asked.length_power), "svg")
    )


@router.post("/attention.svg")
async def attention_picture(folder: Folder, asked: Translating) -> Response:
    def work(run: Run) -> Response:
        found = _translated(folder, run, asked).attention
        if found is None:
            raise OptionError("this model has no attention to draw: train with model.context=attention.")
        return as_picture(found, "svg")

    return await folder.compute(asked.run, work)


def _forecast(folder: LabFolder, run: Run, asked: Forecasting) -> Forecast:
    return folder.remember(run, ("forecast", asked.steps), lambda: run.forecast(asked.steps))


@router.post("/forecast")
async def forecast(folder: Folder, asked: Forecasting) -> Response:
    """How the series goes on, with its interval, after as much of what was known."""

    def work(run: Run) -> dict[str, Any]:
        found = _forecast(folder, run, asked)
        known = found.known[-max(2 * asked.steps, 100) :]
        lines = f"found = run.forecast(steps={asked.steps})\nprint(found)"
        return found.to_json() | {
            "known": known.tolist(),
            "csv": found.to_csv(),
            "python": f"{open_line(folder, asked.run)}\n{lines}",
        }

    return as_json(await folder.compute(asked.run, work))


@router.post("/forecast.svg")
async def forecast_picture(folder: Folder, asked: Forecasting) -> Response:
    def work(run: Run) -> Response:
        found: Result = _forecast(folder, run, asked)
        return as_picture(found, "svg")

    return await folder.compute(asked.run, work)
