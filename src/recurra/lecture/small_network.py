"""A cell with one or two units, every weight of it a number that one can turn: what a phase portrait shows best.

A network this small can be seen whole: with two numbers of state its vector field is a plane, with one it is a curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.fields import Plane, VectorField, plane_of_units, vector_field
from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.cells.notation import Cell
from recurra.errors import OptionError, nearest
from recurra.layers.recurrent import Recurrent
from recurra.results import Result
from recurra.types import Float

LARGEST = 64
"""Numbers of state that are searched for fixed points: a cell that looks far back has many."""
REACH, STARTS, FAR = 1.6, 48, 8.0
"""How far the axes go, how many starts a search has, and how far out a fixed point may be."""


@dataclass(frozen=True)
class Weight:
    """One number of a small network: its name (`U.h[0,1]`), its value, and the interval in which to turn it."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class SmallPortrait(Result):
    """The plane of two numbers of the state, the others at rest at zero; of a state of one number, the curve s ↦ F(s).

    - `field`: of the plane; `None` of a curve. `curve`: places and F of them; `None` of a plane. `points`: fixed points.
    - `path`: the way from a start, as `axes` show it.
    """

    axes: tuple[str, str]
    field: VectorField | None
    curve: Float[Tensor, "N 2"] | None
    points: FixedPoints
    path: Float[Tensor, "T 2"]
    plane: Plane | None

    def __str__(self) -> str:
        return str(self.points)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"axes": list(self.axes), "summary": str(self.points), "path": self.path.tolist()}
        found["points"] = [
            {
                "place": self._place(point.state),
                "kind": str(point),
                "largest_eigenvalue": float(point.eigenvalues[0].abs()),
            }
            for point in self.points.points
        ]
        if self.field is not None:
            size, places = self.field.size, self.field.places
            speed = (self.field.speed + 1e-12).log10()
            found["field"] = {"size": size, "low": places[0].tolist(), "high": places[-1].tolist()}
            found["field"] |= {"moves": self.field.moves.tolist(), "log_speed": speed.tolist()}
        if self.curve is not None:
            found["curve"] = self.curve.tolist()
        return found

    def _place(self, s: Tensor) -> list[float]:
        return [float(s[0]), float(s[0])] if self.plane is None else self.plane.project(s[None])[0].tolist()

    def plot(self, file: Any = None, **options: Any) -> Any:
        """The field with its fixed points."""
        if self.field is None:
            raise OptionError("a state of one number has a curve, not a field. Take two units for a picture.")
        return self.field.plot(file, **{"points": self.points, "title": "Phase portrait"} | options)


class SmallNetwork:
    """A cell with one or two units and one input, with random weights that can be set one by one.

    ```python
    net = rc.lecture.SmallNetwork(rc.find_cell("gru"), units=2, seed=1)
    net.set({"b.z[0]": -1.0, "U.n[0,1]": 2.5})
    net.portrait().plot()
    ```

    - `cell`, `units`, `seed`: of the random weights. `weights`: every number by name. A matrix that the cell keeps antisymmetric
      or orthogonal stays so: `set` takes the nearest such matrix.
    """

    def __init__(self, cell: Cell, units: int = 2, seed: int = 0):
        if units not in (1, 2):
            raise OptionError(f"a small network has one unit or two; got {units}.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = Recurrent(cell, 1, units, init="xavier")
            with torch.no_grad():
                for own in layer.stack[0]:
                    free = [name for name in cell.graph.matrices if name not in cell.graph.constraints]
                    for name in free:
                        own.matrix(name).copy_(1.5 * torch.randn(units, units))
                    own.W.copy_(torch.randn_like(own.W))
        self.F = StepMap(layer)
        if self.F.size > LARGEST:
            raise OptionError(
                f"cell {cell.name!r} with {units} unit(s) has a state of {self.F.size} numbers; at most {LARGEST} are looked at."
            )
        self.cell, self.units = cell, units

    @property
    def _parts(self) -> dict[str, Tensor]:
        """The tensors behind the names: rows of W and b by drive, matrices, per-unit parameters."""
        layer, graph, H = self.F.layers[0], self.cell.graph, self.units
        parts: dict[str, Tensor] = {}
        for k, name in enumerate(graph.drives):
            parts[f"W.{name}"] = layer.W[k * H : (k + 1) * H, 0]
            parts[f"b.{name}"] = layer.b[k * H : (k + 1) * H]
        parts |= {f"U.{name}": matrix for name, matrix in layer.matrices.items()}
        return parts | dict(layer.units)

    @property
    def weights(self) -> list[Weight]:
        found = []
        for name, part in self._parts.items():
            low, high = self._interval(name)
            for place in torch.cartesian_prod(*(torch.arange(n) for n in part.shape)).reshape(-1, part.ndim).tolist():
                called = f"{name}[{','.join(map(str, place))}]"
                found.append(Weight(called, float(part[tuple(place)]), low, high))
        return found

    def _interval(self, name: str) -> tuple[float, float]:
        declared: Any = self.cell.graph.parameters.get(name)
        low, high = getattr(declared, "low", None), getattr(declared, "high", None)
        return (-4.0 if low is None else low, 4.0 if high is None else high) if declared is not None else (-4.0, 4.0)

    @torch.no_grad()
    def set(self, values: Mapping[str, float]) -> None:
        """Set some numbers, by name."""
        parts, known = self._parts, {each.name for each in self.weights}
        for name, value in values.items():
            if name not in known:
                raise OptionError(f"the network has no number {name[:60]!r}.{nearest(name, known)}")
            part, _, place = name.rpartition("[")
            parts[part][tuple(int(k) for k in place[:-1].split(","))] = float(value)
        for name, form in self.cell.graph.constraints.items():
            matrix = parts[f"U.{name}"]
            if form == "antisymmetric":
                matrix.copy_((matrix - matrix.T) / 2)
            else:
                u, _, v = torch.linalg.svd(matrix)
                matrix.copy_(u @ v)

    @torch.no_grad()
    def portrait(
        self, x: float = 0.0, *, start: tuple[float, float] = (0.8, 0.4), steps: int = 60, size: int = 23
    ) -> SmallPortrait:
        """The state space while the input `x` is held, and the way of the state from `start`."""
        held = torch.full((1,), float(x), dtype=self.F.dtype)
        around = 2 * REACH * torch.rand(64, self.F.size, generator=torch.Generator().manual_seed(0)) - REACH
        points = find_fixed_points(self.F, held, around.to(self.F.dtype), starts=STARTS, iterations=60)
        # where gates shut, every state far out stands still: a continuum that no picture shows
        near = [point for point in points.points if float(point.state.abs().max()) <= FAR]
        points = replace(points, points=near)
        if self.F.size == 1:
            return self._curve(held, points, start[0], steps)
        i, j = self._axes()
        plane = plane_of_units(self.F, i, j)
        corner = torch.full((2,), REACH, dtype=self.F.dtype)
        states = [plane.states(torch.tensor([start], dtype=self.F.dtype))]
        for _ in range(steps):
            states.append(self.F(states[-1], held[None]))
        path = plane.project(torch.cat(states)).clamp(-1e6, 1e6)
        field = vector_field(self.F, held, plane, -corner, corner, size)
        return SmallPortrait(self._names(i, j), field, None, points, path, plane)

    def _curve(self, held: Tensor, points: FixedPoints, start: float, steps: int) -> SmallPortrait:
        s = torch.linspace(-REACH, REACH, 161, dtype=self.F.dtype)[:, None]
        curve = torch.cat([s, self.F(s, held[None])], dim=1)
        at, path = torch.tensor([[start]], dtype=self.F.dtype), []
        for _ in range(steps):
            after = self.F(at, held[None])
            path += [
                [float(at), float(after)],
                [float(after), float(after)],
            ]  # a cobweb: up to the curve, over to the line
            at = after
        name = self.cell.states[0]
        return SmallPortrait((name, f"{name}'"), None, curve, points, torch.tensor(path).clamp(-1e6, 1e6), None)

    def _axes(self) -> tuple[int, int]:
        """The newest values of two units of the output, or of its one unit and that of the next state."""
        depths = [state.depth for state in self.cell.graph.states]
        first = (depths[0] - 1) * self.units
        if self.units == 2:
            return first, first + 1
        return (first, sum(depths[:2]) - 1) if len(depths) > 1 else (first, first - 1)

    def _names(self, i: int, j: int) -> tuple[str, str]:
        states = self.cell.states
        if self.units == 2:
            return f"{states[0]}[0]", f"{states[0]}[1]"
        return states[0], states[1] if len(states) > 1 else f"{states[0]} one step before"
