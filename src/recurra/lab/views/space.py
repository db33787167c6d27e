"""State space: trajectories, fixed points, field and basins; states that are dropped; the automaton; the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from recurra.analysis.state_space import LocatedAutomaton, StateSpace
from recurra.data.machine import NAMES, TRIGGERS, VARIABLES, Machine
from recurra.errors import OptionError
from recurra.lab.replies import Folder, as_json, as_picture, open_line
from recurra.lecture.robot import INTERNAL
from recurra.plots.automaton import lay_out
from recurra.tasks.capabilities import Probes, ReadsTokens, offers
from recurra.tasks.run import Run

router = APIRouter()
Text = Annotated[str, Field(max_length=255)]
T = TypeVar("T")
MOST_INPUTS, PATHS, SHOWN = 300, 6, 60
_spaces: WeakKeyDictionary[Run, dict[int | None, StateSpace]] = WeakKeyDictionary()
_automata: WeakKeyDictionary[Run, dict[int | None, LocatedAutomaton]] = WeakKeyDictionary()


class Asked(BaseModel):
    """A run at a step that was kept (`None`: the best weights), an input that is held, and units as axes."""

    run: Text
    step: int | None = Field(None, ge=0)
    input: Text = ""
    units: list[Annotated[int, Field(ge=0)]] = Field(default=[], max_length=3)


def _at(run: Run, step: int | None) -> Run:
    return run if step is None else run.at(step)


def _space(run: Run, step: int | None) -> StateSpace:
    """Made once for each step; the last few steps are kept."""
    known = _spaces.setdefault(run, {})
    if step not in known:
        known[step] = _at(run, step).state_space()
        while len(known) > 40:
            known.pop(next(iter(known)))
    return known[step]


async def _look(folder: Folder, asked: Asked, work: Callable[[StateSpace], T], *, quick: bool = False) -> T:
    """What a function of the state space gives. What is `quick` does not wait for a search of the same run that is under way:
    a space that is there is only read."""
    if quick:
        ready = await folder.work(lambda: _spaces.get(folder.run(asked.run), {}).get(asked.step))
        if ready is not None:
            return await folder.work(lambda: work(ready))
    return await folder.compute(asked.run, lambda run: work(_space(run, asked.step)))


@router.get("/open")
async def opened(folder: Folder, run: Text) -> Response:
    """What there is to choose: inputs, units, steps that were kept."""

    def work(run: Run) -> dict[str, Any]:
        if not offers(run.task, Probes):
            raise OptionError(f"{run.path.name} has no recurrent layers that read one sequence step by step.")
        names = run.task.input_names() if hasattr(run.task, "input_names") else []
        return {
            "inputs": ["zero", *names[:MOST_INPUTS]],
            "first": names[0] if run.has_triggers else "zero",
            "size": run.state_size,
            "snapshots": [0, *run.snapshots] if run.snapshots else [],
            "machine": run.has_triggers,
            "automaton": offers(run.task, ReadsTokens) and "automaton" not in run.task.lacks,
        }

    return as_json(await folder.compute(run, work))


def _places(space: StateSpace, units: Sequence[int], states: torch.Tensor) -> list[list[float]]:
    found: list[list[float]] = space.axes(units).project(states).tolist()
    return found


@router.post("/field")
async def field(folder: Folder, asked: Asked) -> Response:
    """The axes, the move of one step over a grid, and some trajectories of the network at work."""

    def work(space: StateSpace) -> dict[str, Any]:
        found, axes = space.field(asked.input, asked.units), space.axes(asked.units)
        speed = (found.speed + 1e-12).log10()
        return {
            "axes": axes.names,
            "low": axes.low,
            "high": axes.high,
            "size": found.size,
            "moves": found.moves,
            "log_speed": speed,
            "paths": [_places(space, asked.units, path[:SHOWN]) for path in space.runs[:PATHS]],
            "python": _python(folder, asked),
        }

    return as_json(await _look(folder, asked, work, quick=True))


def _python(folder: Folder, asked: Asked) -> str:
    at = "" if asked.step is None else f".at({asked.step})"
    units = f", units={asked.units}" if asked.units else ""
    return (
        f"{open_line(folder, asked.run)}\nspace = run{at}.state_space()\n"
        f"space.field({asked.input!r}{units})                 # .plot() draws it\n"
        f"print(space.fixed_points({asked.input!r}))\n"
        f"print(space.basins({asked.input!r}{units}))\n"
        f"print(space.drop([0.0, 0.0], {asked.input!r}{units}))\n"
    )


@router.post("/points")
async def points(folder: Folder, asked: Asked) -> Response:
    """Fixed points with kinds and what the network predicts there."""

    def work(space: StateSpace) -> dict[str, Any]:
        found = space.fixed_points(asked.input)
        rows = found.to_json()
        states = [point.state for point in found.points]
        places = _places(space, asked.units, torch.stack(states)) if states else []
        numbers = iter(space.numbers(asked.input))
        order = [next(numbers) if point.kind == "attractor" else None for point in found.points]
        listed = [
            row | {"place": place, "attractor": number}
            for row, place, number in zip(rows["points"], places, order, strict=False)
        ]
        return {"points": listed, "summary": str(found), "completeness": found.completeness}

    return as_json(await _look(folder, asked, work))


@router.post("/basins")
async def basins(folder: Folder, asked: Asked) -> Response:
    """The attractor that each place ends at, by its number among the attractors."""

    def work(space: StateSpace) -> dict[str, Any]:
        found = space.basins(asked.input, asked.units)
        if found is None:
            return {"size": 0}
        numbers = torch.tensor([*space.numbers(asked.input), -1])  # the last: no attractor
        return {"size": found.size, "labels": numbers[found.labels], "summary": str(found)}

    return as_json(await _look(folder, asked, work))


class Dropped(Asked):
    place: tuple[Annotated[float, Field(ge=-1e6, le=1e6)], Annotated[float, Field(ge=-1e6, le=1e6)]]
    steps: int = Field(60, ge=1, le=500)


@router.post("/drop")
async def drop(folder: Folder, asked: Dropped) -> Response:
    """The way of a state from a place of the plane."""

    def work(space: StateSpace) -> dict[str, Any]:
        found = space.drop(asked.place, asked.input, asked.units, asked.steps)
        return {
            "path": _places(space, asked.units, found.states),
            "predictions": found.predictions,
            "summary": str(found),
        }

    return as_json(await _look(folder, asked, work, quick=True))


@router.post("/picture")
async def picture(folder: Folder, asked: Asked) -> Response:
    """The field with its fixed points, as `plot` draws it."""

    def work(space: StateSpace) -> Response:
        return as_picture(space.field(asked.input, asked.units), "svg", points=space.fixed_points(asked.input))

    return await _look(folder, asked, work)


@router.post("/automaton")
async def automaton(folder: Folder, asked: Asked) -> Response:
    """The extracted automaton, laid out, and visited states by the state of the automaton that they belong to."""

    def work(run: Run) -> dict[str, Any]:
        known = _automata.setdefault(run, {})
        if asked.step not in known:
            known[asked.step] = _at(run, asked.step).located_automaton()
        found, space = known[asked.step], _space(run, asked.step)
        places = _places(space, asked.units, found.states)
        return {"layout": lay_out(found.machine), "places": places, "numbers": found.numbers, "summary": str(found)}

    return as_json(await folder.compute(asked.run, work))


class Pressed(Asked):
    triggers: list[Annotated[str, Field(max_length=20)]] = Field(default=[], max_length=400)


@router.post("/press")
async def press(folder: Folder, asked: Pressed) -> Response:
    """The machine and the network from Off on, trigger by trigger: the eight variables, the prediction, the hidden state."""

    def work(space: StateSpace) -> dict[str, Any]:
        machine = Machine()
        triggers = ["none", *asked.triggers]
        for trigger in triggers:
            if trigger not in TRIGGERS:
                raise OptionError(f"trigger {trigger!r} does not exist. The machine has {', '.join(TRIGGERS)}.")
        x = torch.stack([space.input(trigger) for trigger in triggers])[None]
        states = space.F.visited(x)[0]
        predicted = list(space.name(space.F.outputs(states))) if space.name else [""] * len(triggers)
        rows = []
        for trigger, says in zip(triggers, predicted, strict=True):
            before, machine = machine, machine.after(trigger)
            does = trigger == "none" or before != machine
            rows.append({"trigger": trigger, "state": machine.name, "predicted": says, "does_something": does})
        return {
            "rows": rows[-30:],
            "wrong": sum(row["state"] != row["predicted"] for row in rows),
            "variables": dict(zip(VARIABLES, machine.variables, strict=True)),
            "buttons": [name for name in TRIGGERS[1:] if name not in INTERNAL],
            "internal": list(INTERNAL),
            "valid": machine.valid,
            "states": list(NAMES),
            "path": _places(space, asked.units, states[-30:]),
        }

    return as_json(await _look(folder, asked, work, quick=True))


class Work(BaseModel):
    run: Text
    step: int | None = Field(None, ge=0)
    programs: list[Annotated[int, Field(ge=1, le=6)]] = Field(default=[1, 2, 3, 4, 5, 6], min_length=1, max_length=20)


@router.post("/robot")
async def robot(folder: Folder, asked: Work) -> Response:
    """The network operates the machine in closed loop."""

    def work(run: Run) -> dict[str, Any]:
        at = "" if asked.step is None else f".at({asked.step})"
        lines = f"{open_line(folder, asked.run)}\nprint(run{at}.robot(programs={asked.programs}))\n"
        return _at(run, asked.step).robot(asked.programs).to_json() | {"python": lines}

    return as_json(await folder.compute(asked.run, work))
