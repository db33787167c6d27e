"""The state space of one network, to be looked at again and again: what does not change is computed once.

Axes are the principal components of visited states, or units by number. A picture has two or three of them; states that are
dropped into it move by the network's own step in the full space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.attractors import Automaton
from recurra.analysis.automata.finite import Machine
from recurra.analysis.automata.weighted import Weighted
from recurra.analysis.fields import Basins, Plane, VectorField, basins, frame, vector_field
from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.analysis.portrait import Naming, name_points
from recurra.errors import OptionError
from recurra.results import Result
from recurra.types import Float, Int

STARTS, ITERATIONS, MOST_SEARCHED = 192, 60, 400
"""Starts and iterations of a search, and the numbers of state up to which one is made: each start takes their cube."""
EFFORT = 2e10
"""Multiplications that a search may take: a second or two."""


@dataclass(frozen=True, eq=False)
class Axes:
    """Three orthonormal directions of the state space (two, where the state has two numbers) from an origin.

    - `low`, `high`: the frame of visited states on the first two.
    """

    origin: Float[Tensor, " S"]
    directions: Float[Tensor, "K S"]
    names: tuple[str, ...]
    low: Float[Tensor, " 2"]
    high: Float[Tensor, " 2"]

    @property
    def plane(self) -> Plane:
        return Plane(self.origin, self.directions[0], self.directions[1], (self.names[0], self.names[1]))

    def project(self, states: Float[Tensor, "N S"]) -> Float[Tensor, "N 3"]:
        """States as places; the third is 0 where there are two directions."""
        seen = (states - self.origin) @ self.directions.T
        return torch.nn.functional.pad(seen, (0, 3 - seen.shape[-1]))


@dataclass(frozen=True, eq=False)
class Drop(Result):
    """The way of a state that was dropped.

    - `states`: where it was dropped, and after each step. `predictions`: what the network predicts at each. `still`: after how
      many steps it stood still; `None` if it did not.
    """

    states: Float[Tensor, "T1 S"]
    predictions: list[str]
    still: int | None

    def __str__(self) -> str:
        end = f"predicts {self.predictions[-1]}" if self.predictions else "ends"
        rest = (
            f"stands still after {self.still} steps"
            if self.still is not None
            else f"moves for all {len(self.states) - 1} steps"
        )
        return f"it {rest} and {end}"

    def arrays(self) -> dict[str, Tensor]:
        return {"states": self.states}


@dataclass(frozen=True, eq=False)
class LocatedAutomaton(Result):
    """An automaton, and where in the state space its states are.

    - `states`: states of the network. `numbers`: of each, the state of the automaton that it belongs to. `about`: how true it is.
    """

    machine: Machine | Weighted
    states: Float[Tensor, "N S"]
    numbers: Int[Tensor, " N"]
    about: str

    def __str__(self) -> str:
        return f"{self.machine.size} states; {self.about}"


class StateSpace:
    """A network's state space: trajectories, fixed points, field and basins while an input is held.

    - `F`, `runs`: the step, and states that the network visits `[B, T, S]`. `input`: the vector of an input by its name.
    - `name`: what the network predicts at some outputs. `machine`: its attractors as a state machine, if it is one.

    `run.state_space()` makes one; of layers of your own:

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 8))
    space = rc.analysis.StateSpace(F, F.visited(torch.randn(4, 50, 2)).detach(), lambda name: torch.zeros(2))
    space.field("zero").plot()
    space.drop([0.1, -0.2], "zero", steps=30).states                # [31, 8]
    ```
    """

    def __init__(
        self,
        F: StepMap,
        runs: Float[Tensor, "B T S"],
        input: Callable[[str], Float[Tensor, " D"]],
        *,
        name: Naming | None = None,
        machine: Automaton | None = None,
    ):
        if F.size < 2:
            raise OptionError("a state of one number has no plane. Look at its curve: rc.lecture.SmallNetwork.")
        self.F, self.runs, self.input, self.name, self.machine = F, runs, input, name, machine
        self._known: dict[tuple[Any, ...], Any] = {}

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def axes(self, units: Sequence[int] = ()) -> Axes:
        """Principal components, or two or three units by their number in the full state."""
        return self._once(("axes", *units), lambda: self._axes(tuple(units)))  # type: ignore[no-any-return]

    def _axes(self, units: tuple[int, ...]) -> Axes:
        visited = self.runs.flatten(0, 1)
        known = visited if self.machine is None else torch.cat([visited, self.machine.states])
        if units:
            if len(set(units)) != len(units) or not 2 <= len(units) <= 3:
                raise OptionError(f"axes are two or three different units; got {list(units)}.")
            if not all(0 <= unit < self.F.size for unit in units):
                raise OptionError(f"units are numbers of 0 to {self.F.size - 1}; got {list(units)}.")
            directions = torch.eye(self.F.size, dtype=self.F.dtype)[list(units)]
            names = tuple(f"unit {unit}" for unit in units)
            origin = known.mean(0) * (1 - directions.sum(0))
        else:
            main = known if self.machine is None else self.machine.states
            origin = main.mean(0)
            _, sizes, found = torch.linalg.svd(main - origin, full_matrices=False)
            directions = found[:3]
            share = sizes.square() / sizes.square().sum().clamp(min=1e-300)
            names = tuple(
                f"principal component {k + 1} ({100 * float(share[k]):.0f} %)" for k in range(len(directions))
            )
        seen = (known - origin) @ directions[:2].T
        low, high = frame(seen)
        return Axes(origin, directions, names, low, high)

    def field(self, input: str, units: Sequence[int] = (), size: int = 21) -> VectorField:
        """The move of one step over a grid of the first two axes."""
        axes = self.axes(units)

        def make() -> VectorField:
            return vector_field(self.F, self.input(input), axes.plane, axes.low, axes.high, size)

        return self._once(("field", input, size, *units), make)  # type: ignore[no-any-return]

    def fixed_points(self, input: str) -> FixedPoints:
        """Where the network stands still; of a state of more than 400 numbers nothing is searched."""
        return self._once(("points", input), lambda: self._fixed_points(input))  # type: ignore[no-any-return]

    def _fixed_points(self, input: str) -> FixedPoints:
        if self.F.size > MOST_SEARCHED:
            raise OptionError(
                f"a state of {self.F.size} numbers is too large for a quick search. Use run.resting_places()."
            )
        starts = max(12, min(STARTS, round(EFFORT / (ITERATIONS * self.F.size**3))))
        also = None if self.machine is None else self.machine.states
        found = find_fixed_points(
            self.F, self.input(input), self.runs.flatten(0, 1), starts=starts, iterations=ITERATIONS, also=also
        )
        return found if self.name is None else name_points(found, self.F, self.name, self.machine)

    def numbers(self, input: str) -> list[int]:
        """Of each attractor of `fixed_points`: its number as a state of the machine; those that are none come after them."""
        attractors = self.fixed_points(input).attractors
        known = [] if self.machine is None else list(self.machine.states)
        found, more = [], len(known)
        for point in attractors:
            near = [k for k, s in enumerate(known) if float((s - point.state).norm()) < 1e-4 * (1 + float(s.norm()))]
            found.append(near[0] if near else more)
            more += not near
        return found

    def basins(self, input: str, units: Sequence[int] = (), size: int = 60) -> Basins | None:
        """The attractor that each place of the plane ends at, by its number among the attractors of `fixed_points`; `None` where
        there is none."""
        axes, found = self.axes(units), self.fixed_points(input).attractors
        if not found:
            return None

        def make() -> Basins:
            ends = torch.stack([point.state for point in found])
            return basins(self.F, self.input(input), ends, axes.plane, axes.low, axes.high, size=size, steps=300)

        return self._once(("basins", input, size, *units), make)  # type: ignore[no-any-return]

    @torch.no_grad()
    def drop(self, place: Sequence[float], input: str, units: Sequence[int] = (), steps: int = 60) -> Drop:
        """Put the state at a place of the plane, and hold the input for so many steps."""
        axes, x = self.axes(units), self.input(input).to(self.F.dtype)[None]
        states = [axes.plane.states(torch.tensor([list(place)[:2]], dtype=self.F.dtype))]
        still = None
        for k in range(steps):
            states.append(self.F(states[-1], x))
            if still is None and float((states[-1] - states[-2]).abs().max()) < 1e-6:
                still = k
        found = torch.cat(states)
        named = [] if self.name is None else list(self.name(self.F.outputs(found)))
        return Drop(found, named, still)
