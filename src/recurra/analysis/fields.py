"""The state space in a plane: where each state moves under a frozen input, which attractor it ends at, and how fast it is.

A plane is given by a point and two directions: two units, the first two principal components of visited states, or the plane
through three points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recurra.analysis.exponents import lyapunov_spectrum
from recurra.analysis.jacobians import StepMap, step_map
from recurra.errors import OptionError
from recurra.results import Result
from recurra.types import Float


@dataclass(frozen=True)
class Plane:
    """`origin + a · first + b · second`; the directions are orthonormal."""

    origin: Float[Tensor, " S"]
    first: Float[Tensor, " S"]
    second: Float[Tensor, " S"]
    names: tuple[str, str] = ("", "")

    def states(self, places: Float[Tensor, "N 2"]) -> Float[Tensor, "N S"]:
        return self.origin + places[:, :1] * self.first + places[:, 1:] * self.second

    def project(self, states: Float[Tensor, "N S"]) -> Float[Tensor, "N 2"]:
        moved = states - self.origin
        return torch.stack([moved @ self.first, moved @ self.second], dim=-1)


@dataclass(frozen=True)
class BentPlane(Plane):
    """A plane that is bent so as to pass through some states; far from them it is a mean of their distances from the plane.

    Seen from above, nothing changes: `project` is that of the plane. Dots of the states and what is drawn of the plane agree.
    """

    through: Float[Tensor, "A S"] | None = None

    def states(self, places: Float[Tensor, "N 2"]) -> Float[Tensor, "N S"]:
        flat = super().states(places)
        if self.through is None or not len(self.through):
            return flat
        own = self.project(self.through)
        off = self.through - super().states(own)
        # the fourth power: around each state the plane is nearly level
        weights = 1 / (torch.cdist(places, own).pow(4) + 1e-24)
        return flat + (weights / weights.sum(1, keepdim=True)) @ off


def bend(plane: Plane, through: Float[Tensor, "A S"]) -> BentPlane:
    """The plane, bent to pass through these states."""
    return BentPlane(plane.origin, plane.first, plane.second, plane.names, through)


def plane_of_units(F: StepMap, i: int, j: int, origin: Float[Tensor, " S"] | None = None) -> Plane:
    """Two numbers of the full state as axes; the others stay at `origin` (zero otherwise).

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 8))
    rc.vector_field(F, torch.zeros(2), rc.analysis.plane_of_units(F, 0, 3))
    ```
    """
    if not (0 <= i < F.size and 0 <= j < F.size) or i == j:
        raise OptionError(f"units must be two different numbers of 0 to {F.size - 1}; got {i} and {j}.")
    axes = torch.eye(F.size, dtype=F.dtype)
    origin = torch.zeros(F.size, dtype=F.dtype) if origin is None else origin.clone()
    origin[[i, j]] = 0
    return Plane(origin, axes[i], axes[j], (f"unit {i}", f"unit {j}"))


def plane_of_principal_components(visited: Float[Tensor, "M S"]) -> Plane:
    """The two directions in which visited states differ most. A network of one unit has a line, and gets a second axis.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 8))
    plane = rc.analysis.plane_of_principal_components(F.visited(torch.randn(4, 50, 2)).detach().flatten(0, 1))
    rc.vector_field(F, torch.zeros(2), plane)
    ```
    """
    centre = visited.mean(0)
    _, sizes, directions = torch.linalg.svd(visited - centre, full_matrices=False)
    if len(directions) < 2 or visited.shape[1] < 2:
        raise OptionError("a plane needs a state of at least two numbers and at least two visited states.")
    share = sizes.square() / sizes.square().sum().clamp(min=1e-300)
    names = tuple(f"principal component {k + 1} ({100 * float(share[k]):.0f} %)" for k in range(2))
    return Plane(centre, directions[0], directions[1], (names[0], names[1]))


def plane_through(a: Float[Tensor, " S"], b: Float[Tensor, " S"], c: Float[Tensor, " S"]) -> Plane:
    """The plane through three states that are not on one line."""
    first = b - a
    second = c - a
    first = first / first.norm()
    second = second - (second @ first) * first
    if not bool(torch.isfinite(first).all()) or float(second.norm()) < 1e-9:
        raise OptionError("the three points lie on one line, or two of them are the same: they give no plane.")
    return Plane(a, first, second / second.norm(), ("from a to b", "towards c"))


def grid(low: Float[Tensor, " 2"], high: Float[Tensor, " 2"], size: int) -> Float[Tensor, "N 2"]:
    """size × size places, row by row from the lower left."""
    a, b = (torch.linspace(float(low[k]), float(high[k]), size, dtype=low.dtype) for k in range(2))
    return torch.stack([a.repeat(size), b.repeat_interleave(size)], dim=-1)


def frame(places: Float[Tensor, "N 2"], margin: float = 0.15) -> tuple[Float[Tensor, " 2"], Float[Tensor, " 2"]]:
    """The corners of a square that holds all places, with a margin."""
    low, high = places.amin(0), places.amax(0)
    half = float((high - low).max()) * (0.5 + margin) or 1.0
    middle = (low + high) / 2
    return middle - half, middle + half


@dataclass(frozen=True, eq=False)
class VectorField(Result):
    """At each place of a grid, the move of one step as it is seen in the plane, and the speed in the full space."""

    plane: Plane
    places: Float[Tensor, "N 2"]
    moves: Float[Tensor, "N 2"]
    speed: Float[Tensor, " N"]
    size: int

    def __str__(self) -> str:
        slowest, fastest = float(self.speed.min()), float(self.speed.max())
        return f"{self.size} × {self.size} places of a plane, speed {slowest:.3g} to {fastest:.3g}"

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "axes": list(self.plane.names), "slowest": float(self.speed.min())}

    def arrays(self) -> dict[str, Tensor]:
        return {"places": self.places, "moves": self.moves, "speed": self.speed}


@torch.no_grad()
def vector_field(
    network: StepMap | nn.Module,
    x: Float[Tensor, " D"] | None = None,
    plane: Plane | None = None,
    low: Tensor | None = None,
    high: Tensor | None = None,
    size: int = 25,
) -> VectorField:
    """F(s) − s over a grid of the plane. `speed` is q = ½‖F(s) − s‖²: its valleys are where the network lingers.

    - `network`: recurrent layers, a module with one `Recurrent`, or its `StepMap`. `x`: the input that is held; zero otherwise.
    - `plane`, `low`, `high`: otherwise that of the principal components of states visited under noise, and a frame of these.

    ```python
    rc.vector_field(rc.Recurrent("gru", 2, 8)).plot()
    ```
    """
    F = step_map(network)
    x = torch.zeros(F.input_size) if x is None else x
    if plane is None or low is None or high is None:
        visited = F.visited().flatten(0, 1)
        plane = plane or plane_of_principal_components(visited)
        low, high = frame(plane.project(visited))
    places = grid(low, high, size)
    states = plane.states(places)
    after = F(states, x.to(F.dtype)[None])
    return VectorField(plane, places, plane.project(after) - places, (after - states).square().sum(1) / 2, size)


@dataclass(frozen=True, eq=False)
class Basins(Result):
    """Which attractor each place of a grid ends at: its number, or −1 where it ends at none of them."""

    plane: Plane
    places: Float[Tensor, "N 2"]
    labels: Tensor
    size: int

    @property
    def share(self) -> float:
        """The part of the grid that ends at a known attractor."""
        return float((self.labels >= 0).float().mean())

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % of the plane ends at a known attractor."

    def to_json(self) -> dict[str, Any]:
        shares = [float((self.labels == k).float().mean()) for k in range(int(self.labels.max()) + 1)]
        return {"share": self.share, "attractors": shares}

    def arrays(self) -> dict[str, Tensor]:
        return {"places": self.places, "labels": self.labels}


@torch.no_grad()
def basins(
    F: StepMap,
    x: Float[Tensor, " D"],
    attractors: Float[Tensor, "A S"],
    plane: Plane,
    low: Tensor,
    high: Tensor,
    *,
    size: int = 200,
    steps: int = 2000,
    near: float = 1e-3,
    refine: bool = True,
) -> Basins:
    """Run every place of the grid until it has come near an attractor.

    A coarse grid is run first; of the fine one, only places whose coarse neighbours disagree are run (`refine`).

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 2))
    found = rc.find_fixed_points(F, torch.zeros(2), starts=16)
    points = torch.stack([point.state for point in found.attractors])
    corner = torch.ones(2, dtype=points.dtype)
    rc.analysis.basins(F, torch.zeros(2), points, rc.analysis.plane_of_units(F, 0, 1), -corner, corner, size=20).share
    ```
    """
    x = x.to(F.dtype)[None]

    def run(places: Tensor) -> Tensor:
        s = plane.states(places)
        labels = torch.full((len(s),), -1)
        left = torch.arange(len(s))
        for step in range(steps):
            s = F(s, x)
            if step % 5 == 4 or step == steps - 1:
                distance = torch.cdist(s, attractors)
                closest = distance.min(1)
                there = closest.values < near * (1 + attractors.norm(dim=1)[closest.indices])
                labels[left[there]] = closest.indices[there]
                left, s = left[~there], s[~there]
                if not len(left):
                    break
        return labels

    places = grid(low, high, size)
    if not refine or size < 40:
        return Basins(plane, places, run(places), size)
    row, column = torch.arange(size).repeat_interleave(size), torch.arange(size).repeat(size)
    coarse = (row % 4 == 0) & (column % 4 == 0)
    labels = torch.full((len(places),), -2)
    labels[coarse] = run(places[coarse])
    side = -(-size // 4)
    known = labels[coarse].view(side, side)
    # a block whose corners agree is taken to be of one colour; the border is run in full
    down, right = known.roll(-1, 0), known.roll(-1, 1)
    across = down.roll(-1, 1)
    agree = (known == down) & (known == right) & (known == across)
    agree[-1, :] = agree[:, -1] = False
    inside = agree[row // 4, column // 4]
    labels[inside] = known[row[inside] // 4, column[inside] // 4]
    rest = labels == -2
    labels[rest] = run(places[rest])
    return Basins(plane, places, labels, size)


@torch.no_grad()
def ends_of_plane(
    F: StepMap, x: Float[Tensor, " D"], plane: Plane, low: Tensor, high: Tensor, *, size: int = 40, steps: int = 1000
) -> Float[Tensor, "N S"]:
    """The different states at which the places of a coarse grid end after `steps` steps.

    Attractors that the network never visits have basins too; a search for fixed points that starts here finds them.
    """
    s = plane.states(grid(low, high, size))
    for _ in range(steps):
        s = F(s, x.to(F.dtype)[None])
    rounded: Tensor = (s / 1e-3).round()
    return rounded.unique(dim=0) * 1e-3  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Trajectory(Result):
    """The state before the first input and after each one."""

    states: Float[Tensor, "T1 S"]

    def __str__(self) -> str:
        return f"{len(self.states) - 1} steps of a state of {self.states.shape[1]} numbers"

    def arrays(self) -> dict[str, Tensor]:
        return {"states": self.states}


@torch.no_grad()
def trajectory(F: StepMap, s: Float[Tensor, " S"], inputs: Float[Tensor, "T D"]) -> Trajectory:
    """Follow the state along some inputs.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 8))
    rc.analysis.trajectory(F, F.start, torch.randn(50, 2)).states   # [51, 8]
    ```
    """
    found = [s]
    for x in inputs.to(F.dtype):
        found.append(F(found[-1][None], x[None])[0])
    return Trajectory(torch.stack(found))


@dataclass(frozen=True, eq=False)
class Settling(Result):
    """Where free runs under a frozen input end up.

    `kind`: `fixed point`, `cycle of period p`, `limit cycle`, `chaos`, `unbounded` or `still moving`.
    """

    kind: str
    state: Float[Tensor, " S"]
    exponents: Float[Tensor, " M"]

    def __str__(self) -> str:
        exponents = ", ".join(f"{value:.4g}" for value in self.exponents.tolist())
        return self.kind + (f" (largest Lyapunov exponents {exponents})" if exponents else "")


@torch.no_grad()
def settle(
    F: StepMap, x: Float[Tensor, " D"], s: Float[Tensor, " S"], *, steps: int = 5000, period: int = 32
) -> Settling:
    """Run until it settles, and classify where: by the first state that recurs, and by the two largest Lyapunov exponents.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 8))
    print(rc.analysis.settle(F, torch.zeros(2), F.start, steps=200))
    ```
    """
    frozen = x.to(F.dtype)[None]
    none = torch.zeros(0, dtype=F.dtype)
    s = s.to(F.dtype)[None]
    for _ in range(steps):
        s = F(s, frozen)
    if not bool(torch.isfinite(s).all()) or float(s.abs().max()) > 1e8:
        return Settling("unbounded", s[0], none)
    scale = 1e-7 * (1 + float(s.norm()))
    later = s
    for p in range(1, period + 1):
        later = F(later, frozen)
        if float((later - s).norm()) < scale:
            return Settling("fixed point" if p == 1 else f"cycle of period {p}", s[0], none)
    exponents = lyapunov_spectrum(F, s[0], frozen.expand(steps, -1), count=min(2, F.size))
    margin = 5.0 / steps
    if float(exponents[0]) > margin:
        kind = "chaos"
    elif float(exponents[0]) > -margin and (len(exponents) < 2 or float(exponents[1]) < -margin):
        kind = "limit cycle"
    else:
        kind = "still moving"
    return Settling(kind, s[0], exponents)
