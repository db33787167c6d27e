"""The phase portrait under a frozen input: fixed points, and in a plane the vector field and the basins around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.attractors import Automaton
from recurra.analysis.fields import (
    Basins,
    VectorField,
    basins,
    bend,
    ends_of_plane,
    frame,
    plane_of_principal_components,
    vector_field,
)
from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.results import Result, Table
from recurra.types import Float

Naming = Callable[[Float[Tensor, "N H"]], Sequence[str]]
"""Outputs of the last layer to what the network predicts there, in a word each."""


@dataclass(frozen=True, eq=False)
class Portrait(Result):
    """What a search of the state space found.

    - `points`: fixed points. `field`: arrows of one step in a plane. `basins`: the attractor that each place of the plane ends
      at; `None` where there is no attractor. `paths`: some trajectories of the network at work.
    """

    points: FixedPoints
    field: VectorField
    basins: Basins | None
    paths: list[Float[Tensor, "T S"]]

    def __str__(self) -> str:
        return str(self.points) if self.basins is None else f"{self.points} {self.basins}"

    def to_json(self) -> dict[str, Any]:
        share = {} if self.basins is None else {"basins": self.basins.share}
        return self.points.to_json() | share | {"summary": str(self)}

    def arrays(self) -> dict[str, Tensor]:
        return self.field.arrays()

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """The field with the fixed points marked; `basins.plot()` has the basins."""
        usual = {"points": self.points, "paths": self.paths, "title": f"Under the input {self.points.input}"}
        return self.field.plot(file, **usual | options)

    def plot_basins(self, file: str | Path | None = None, **options: Any) -> Any:
        """The plane coloured by the attractor that each place ends at."""
        assert self.basins is not None
        usual = {"field": self.field, "points": self.points, "title": f"Under the input {self.points.input}: basins"}
        return self.basins.plot(file, **usual | options)


def name_points(found: FixedPoints, F: StepMap, name: Naming, machine: Automaton | None = None) -> FixedPoints:
    """Fixed points with what the network predicts at each, or with the names that they have as states of a machine."""
    if not found.points:
        return found
    names = list(name(F.outputs(torch.stack([point.state for point in found.points]))))
    if machine is not None:
        names = [
            machine.name_of(point.state) or f"{word}, not visited"
            for word, point in zip(names, found.points, strict=True)
        ]
    return replace(found, names=names)


def phase_portrait(
    F: StepMap,
    x: Float[Tensor, " D"],
    runs: Float[Tensor, "B T S"],
    *,
    input: str = "",
    starts: int = 1024,
    period: int = 1,
    machine: Automaton | None = None,
    name: Naming | None = None,
) -> Portrait:
    """Fixed points, field and basins while the input is held.

    - `runs`: states that the network visits, which say where to look. `machine`: its attractors as a state machine, if it is one.
    - `input`, `name`: what the input is called, and names for what the network predicts at fixed points.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 4))
    portrait = rc.analysis.phase_portrait(F, torch.zeros(2), F.visited(torch.randn(4, 50, 2)).detach(), starts=32)
    portrait.plot()
    ```
    """
    visited = runs.flatten(0, 1)
    plane = plane_of_principal_components(machine.states if machine is not None else visited)
    also = machine.states if machine is not None else visited[:0]
    low, high = frame(plane.project(torch.cat([visited, also])))
    also = torch.cat([also, ends_of_plane(F, x, plane, low, high)])
    found = replace(find_fixed_points(F, x, visited, starts=starts, period=period, also=also), input=input)
    if name is not None:
        found = name_points(found, F, name, machine)
    colours = None
    if found.attractors:
        ends = torch.stack([point.state for point in found.attractors])
        # through every attractor, so that each stands in the colour of its own basin
        plane = bend(plane, ends)
        colours = basins(F, x, ends, plane, low, high)
    paths = [] if machine is not None else list(runs[:2, :40])
    return Portrait(found, vector_field(F, x, plane, low, high), colours, paths)


@dataclass(frozen=True, eq=False)
class RestingPlaces(Result):
    """Of a large network: where states that it visits come to when they are left alone.

    - `states`: how many were left alone, for `steps` steps. `places`: what the network predicts at each place of rest, and how
      many states end there. `moving`: how many still move.
    """

    input: str
    steps: int
    states: int
    places: list[tuple[str, int]]
    moving: int
    field: VectorField
    paths: list[Float[Tensor, "T S"]]

    def __str__(self) -> str:
        rest = f"{self.states - self.moving} come to rest, at {len(self.places)} place(s)."
        left = f"{self.states} states that the network visits were left alone for {self.steps} steps"
        return f"{left} under the input {self.input}: {rest if self.places else 'none of them comes to rest.'}"

    def table(self) -> Table:
        rows = [[word or "—", str(count)] for word, count in self.places]
        return Table(["predicted there", "states that end there"], [*rows, ["still moving", str(self.moving)]])

    def to_json(self) -> dict[str, Any]:
        places = [{"predicts": word, "states": count} for word, count in self.places]
        return {"input": self.input, "states": self.states, "places": places, "moving": self.moving}

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        return self.field.plot(file, **{"paths": self.paths, "title": f"Under the input {self.input}"} | options)


@torch.no_grad()
def resting_places(
    F: StepMap,
    x: Float[Tensor, " D"],
    runs: Float[Tensor, "B T S"],
    *,
    input: str = "",
    name: Naming | None = None,
    count: int = 64,
    steps: int = 500,
) -> RestingPlaces:
    """Hold the input, and leave `count` of the visited states alone."""
    held = x.to(F.dtype)[None]
    s = runs[:, -max(1, count // len(runs)) :].flatten(0, 1)
    for _ in range(steps):
        s = F(s, held)
    still = (F(s, held) - s).norm(dim=1) < 1e-4 * (1 + s.norm(dim=1))
    places: list[tuple[str, int]] = []
    if bool(still.any()):
        ends, counts = (s[still] / 0.05).round().unique(dim=0, return_counts=True)
        words = [""] * len(ends) if name is None else name(F.outputs(ends * 0.05))
        places = list(zip(words, counts.tolist(), strict=True))
    visited = runs.flatten(0, 1)
    plane = plane_of_principal_components(visited)
    low, high = frame(plane.project(torch.cat([visited, s[still]])))
    field = vector_field(F, x, plane, low, high)
    return RestingPlaces(input, steps, len(s), places, int((~still).sum()), field, list(runs[:2]))
