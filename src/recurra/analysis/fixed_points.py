"""Where a network stands still under a frozen input: fixed points, slow points and cycles of s ↦ F(s, x).

A fixed point solves F(s) = s to rounding. A slow point is where the speed q = ½‖F(s) − s‖² has a local minimum that is small but
not zero. They are different things, and are reported apart; starts that end at neither are counted, not dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from recurra.analysis.jacobians import StepMap, step_map
from recurra.analysis.levenberg_marquardt import levenberg_marquardt_step
from recurra.analysis.slow_points import (
    FLAT,
    STILL,
    Map,
    MapWithSlope,
    SlowPoint,
    minimise_speed,
    reachable_range,
    slopes,
)
from recurra.errors import OptionError, ShapeError
from recurra.results import Result, Table
from recurra.types import Float

SAME = 1e-6
"""Points closer than this, relative to their size, are one."""

MOST = 256
"""A search stops to describe new fixed points after so many: more are a continuum of them."""

NUMBERS = 2**23
"""Jacobians are computed in chunks of at most so many numbers: 64 MB."""

MARGINAL = 1e-3
"""An eigenvalue whose size is within this of 1 counts as neither attracting nor repelling, unless another width is given."""
NEAR_SLOW, MOST_SLOW = 100.0, 256
"""Ends of a search that are faster than a slow point by up to this factor are looked below too; and how many are, the slowest."""


@dataclass(frozen=True)
class FixedPoint:
    """A state that the network stays in.

    - `residual`: the largest |F(s) − s| of a unit. `eigenvalues`: of the Jacobian there, largest first.
    - `index`: how many directions lead away. `sign`: of det(I − J); 0 if it is too close to zero to tell.
    - `starts`: how many starts ended here. `is_far`: outside of what the network visits.
    - `period`: 1, or that of the cycle that it is a point of. `marginal`: how near to 1 the size of an eigenvalue must be for it
      to count as neither attracting nor repelling.
    """

    state: Float[Tensor, " S"]
    residual: float
    eigenvalues: Tensor
    starts: int
    sign: int
    is_far: bool = False
    period: int = 1
    marginal: float = MARGINAL

    @property
    def index(self) -> int:
        return int((self.eigenvalues.abs() > 1 + self.marginal).sum())

    @property
    def is_marginal(self) -> bool:
        return bool(((self.eigenvalues.abs() - 1).abs() <= self.marginal).any())

    @property
    def is_spiral(self) -> bool:
        """Whether the slowest direction turns as it comes or goes."""
        first = self.eigenvalues[0]
        return bool(first.imag.abs() > 1e-6 * first.abs())

    @property
    def kind(self) -> str:
        if self.is_marginal and self.index == 0:
            return "marginal"
        if self.index == 0:
            return "attractor"
        return "repeller" if self.index == len(self.eigenvalues) else "saddle"

    def __str__(self) -> str:
        index = f" of index {self.index}" if self.kind == "saddle" else ""
        spiral = ", spiral" if self.is_spiral else ""
        period = f" of period {self.period}" if self.period > 1 else ""
        return f"{self.kind}{index}{period}{spiral}"


@dataclass(frozen=True, eq=False)
class FixedPoints(Result):
    """What a search found, and what it did not.

    - `points`, `cycles`, `slow`; `unconverged`: how many starts ended at none of them.
    - `tolerance`, `iterations`, `starts`: what the search was given.
    - `is_bounded`: whether large states are mapped inward, so that the index theorem applies.
    - `input`: the name of the frozen input. `names`: what the network outputs at each of `points`. Whoever knows them adds them:
      `replace(found, input="e", names=names)`.
    """

    points: list[FixedPoint]
    slow: list[SlowPoint]
    unconverged: int
    starts: int
    iterations: int
    tolerance: float
    is_bounded: bool
    cycles: list[FixedPoint] = field(default_factory=list)
    input: str = ""
    names: Sequence[str] = ()

    @property
    def attractors(self) -> list[FixedPoint]:
        return [point for point in self.points if point.kind == "attractor"]

    @property
    def index_sum(self) -> int | None:
        """Σ sign det(I − J) over all fixed points; `None` where one is degenerate."""
        signs = [point.sign for point in self.points]
        return None if 0 in signs else sum(signs)

    @property
    def completeness(self) -> str:
        """For a bounded map the sum is +1 if no point is missing. It can be so by chance: then nothing is proved."""
        if not self.is_bounded:
            return "not checked: large states are not mapped inward, so the index theorem does not apply"
        if self.index_sum is None:
            return "not checked: a point is degenerate (det(I − J) ≈ 0)"
        if self.index_sum == 1:
            return "not refuted: the signs of det(I − J) sum to +1"
        return f"refuted: the signs of det(I − J) sum to {self.index_sum:+d}, so at least one point is missing"

    @property
    def line_attractor(self) -> bool:
        """Whether points with one eigenvalue near 1 and no direction away line up along a curve."""
        standing = [(p.state, p.eigenvalues) for p in self.points if p.index == 0]
        standing += [(p.state, p.eigenvalues) for p in self.slow if p.is_reachable]
        near = [
            s for s, values in standing if float((values[0] - 1).abs()) < 0.05 and bool((values[1:].abs() < 0.95).all())
        ]
        if len(near) < 5:
            return False
        spread = torch.linalg.svdvals(torch.stack(near) - torch.stack(near).mean(0)).square()
        return bool(spread[:2].sum() > 0.9 * spread.sum())

    def __str__(self) -> str:
        kinds = Counter(map(str, self.points))
        found = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) or "none"
        more = f"; {len(self.cycles)} cycle(s)" if self.cycles else ""
        line = "; they form a line attractor" if self.line_attractor else ""
        held = f"input {self.input}: " if self.input else ""
        beyond = sum(not point.is_reachable for point in self.slow)
        slow = f"{len(self.slow)} slow point(s){f', {beyond} of them out of reach' if beyond else ''}"
        return (
            f"{held}{len(self.points)} fixed point(s): {found}{more}; {slow}{line}; "
            f"{self.unconverged} of {self.starts} starts unconverged. Completeness {self.completeness}."
        )

    def _rows(self) -> list[dict[str, Any]]:
        names = [*self.names, *[""] * len(self.points + self.cycles)]
        return [
            {
                "says": name,
                "kind": str(point),
                "index": point.index,
                "residual": point.residual,
                "largest_eigenvalue": float(point.eigenvalues[0].abs()),
                "starts": point.starts,
                "is_far": point.is_far,
                "period": point.period,
            }
            for name, point in zip(names, (*self.points, *self.cycles), strict=False)
        ]

    def table(self) -> Table:
        columns = ("kind", "largest |λ|", "residual", "starts", *(["output"] if self.names else []))
        rows = [
            (
                row["kind"],
                f"{row['largest_eigenvalue']:.4g}",
                f"{row['residual']:.1e}",
                str(row["starts"]),
                *([row["says"]] if self.names else []),
            )
            for row in self._rows()
        ]
        return Table(columns, rows, str(self))

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "points": self._rows(),
            "slow_points": len(self.slow),
            "slow": [
                {
                    "speed": point.speed,
                    "slope": point.slope,
                    "largest_eigenvalue": float(point.eigenvalues[0].abs()),
                    "is_far": point.is_far,
                    "is_reachable": point.is_reachable,
                }
                for point in self.slow
            ],
            "unconverged": self.unconverged,
            "starts": self.starts,
            "completeness": self.completeness,
            "line_attractor": self.line_attractor,
            "summary": str(self),
        }

    def arrays(self) -> dict[str, Tensor]:
        states = [point.state for point in (*self.points, *self.cycles)]
        return {"states": torch.stack(states) if states else torch.empty(0, 0)}


def find_fixed_points(
    network: StepMap | nn.Module,
    x: Float[Tensor, " D"] | None = None,
    visited: Float[Tensor, "M S"] | None = None,
    *,
    starts: int = 1024,
    noise: float = 0.5,
    iterations: int = 200,
    tolerance: float = 1e-12,
    slow: float = 1e-6,
    period: int = 1,
    marginal: float = MARGINAL,
    seed: int = 0,
    also: Float[Tensor, "N S"] | None = None,
) -> FixedPoints:
    """Search from states that the network visits, from around them, and from between the points that are found.

    Levenberg–Marquardt on F(s) − s with the graph's Jacobian, all starts at once, then Newton to rounding.

    - `network`: recurrent layers, a module with one `Recurrent`, or its `StepMap`. `x`: the frozen input; zero otherwise.
    - `visited`: states that the network has been in (otherwise under noise as input); half of the starts get noise of `noise`
      times their spread. `period`: also look for cycles up to this period.
    - `slow`: the speed below which a minimum is reported as a slow point. `also`: states to start from besides, as they are.
    - `marginal`: how near to 1 the size of an eigenvalue must be for it to count as neither attracting nor repelling. A flow with
      a small step needs a small number: over a step of 0.01, a spiral that grows by e in ten units of time has |λ| = 1.001.

    ```python
    found = rc.find_fixed_points(rc.Recurrent("gru", 2, 8), starts=64)
    found.points, found.attractors
    ```
    """
    F = step_map(network)
    x = torch.zeros(F.input_size) if x is None else x
    visited = F.visited().flatten(0, 1) if visited is None else visited
    if visited.ndim != 2 or visited.shape[1] != F.size or not len(visited):
        raise ShapeError(f"visited must be states [M, {F.size}]; got {list(visited.shape)}.")
    if not bool(torch.isfinite(visited).all()):
        raise ShapeError("the visited states are not all finite: the network diverged, or a weight is NaN.")
    if not 0 <= marginal < 1:
        raise OptionError(f"marginal must lie in [0, 1); got {marginal}.")
    if starts < 1 or period < 1:
        raise OptionError(f"starts and period must be at least 1; got {starts} and {period}.")
    visited = visited.to(F.dtype)
    frozen = x.to(F.dtype)[None]
    random = torch.Generator().manual_seed(seed)
    first = _starts(visited, starts, noise, random)
    if also is not None:
        first = torch.cat([first, also.to(F.dtype)])

    def both(s: Tensor) -> tuple[Tensor, Tensor]:
        step = F.step(s, frozen)
        return step.next, step.state

    def value(s: Tensor) -> Tensor:
        return F(s, frozen)

    solver = _Search(value, both, visited, iterations, tolerance, slow, marginal, F.local)
    solver.go(first)
    for _ in range(4):  # between points that are known lie those that trajectories seldom pass
        before = len(solver.points)
        middles = _between([point.state for point in solver.points], random)
        if not len(middles):
            break
        solver.go(middles)
        if len(solver.points) == before:
            break
    cycles: list[FixedPoint] = []
    for p in range(2, period + 1):
        several = _Search(*_repeated(value, both, p), visited, iterations, tolerance, 0.0, marginal)
        several.go(first)
        cycles += _new_cycles(value, several.points, [*solver.points, *cycles], p)
    return FixedPoints(
        points=sorted(solver.points, key=lambda point: (point.index, -point.starts)),
        slow=solver.slow,
        unconverged=solver.unconverged,
        starts=solver.starts,
        iterations=iterations,
        tolerance=tolerance,
        is_bounded=_is_bounded(value, visited, random),
        cycles=cycles,
    )


def _starts(visited: Tensor, count: int, noise: float, random: torch.Generator) -> Tensor:
    chosen = visited[torch.randint(len(visited), (count,), generator=random)].clone()
    spread = visited.std(0) if len(visited) > 1 else torch.ones_like(visited[0])
    half = count // 2
    chosen[half:] += (
        noise * spread.clamp(min=1e-3) * torch.randn(chosen[half:].shape, generator=random, dtype=chosen.dtype)
    )
    return chosen


def _between(points: list[Tensor], random: torch.Generator, most: int = 512) -> Tensor:
    """The middles of pairs of points."""
    if len(points) < 2:
        return torch.empty(0)
    known = torch.stack(points)
    pairs = torch.combinations(torch.arange(len(known)))
    if len(pairs) > most:
        pairs = pairs[torch.randperm(len(pairs), generator=random)[:most]]
    return known[pairs].mean(1)


def _repeated(value: Map, both: MapWithSlope, times: int) -> tuple[Map, MapWithSlope]:
    """F applied several times, and its Jacobian by the chain rule."""

    def values(s: Tensor) -> Tensor:
        for _ in range(times):
            s = value(s)
        return s

    def slopes(s: Tensor) -> tuple[Tensor, Tensor]:
        s, J = both(s)
        for _ in range(times - 1):
            s, next_J = both(s)
            J = next_J @ J
        return s, J

    return values, slopes


@torch.no_grad()
def _new_cycles(value: Map, found: list[FixedPoint], known: list[FixedPoint], period: int) -> list[FixedPoint]:
    """Of points of F^p, those that are points of no shorter cycle; one for each cycle."""
    kept: list[FixedPoint] = []
    for point in found:
        orbit = [point.state]
        for _ in range(period - 1):
            orbit.append(value(orbit[-1][None])[0])
        others = [other.state for other in (*known, *kept)]
        scale = 1 + float(point.state.norm())
        if any(float((s - other).norm()) < 1e-5 * scale for s in orbit for other in others):
            continue
        if any(float((s - point.state).norm()) < 1e-5 * scale for s in orbit[1:]):
            continue
        kept.append(replace(point, period=period))
    return kept


@torch.no_grad()
def _is_bounded(value: Map, visited: Tensor, random: torch.Generator) -> bool:
    """Whether there is a box around the visited states that is mapped into itself, as far as random states of it tell."""
    box = visited.abs().amax(0).clamp(min=1e-3)
    for _ in range(200):
        s = 2 * torch.rand(256, len(box), generator=random, dtype=box.dtype) - 1
        s[128:] = torch.where(s[128:] > 0, 1.0, -1.0)  # corners
        reached = value(box * s).abs().amax(0)
        if bool((reached <= box).all()):
            return True
        box = torch.maximum(box, 1.1 * reached)
        if not bool(torch.isfinite(box).all()) or float(box.max()) > 1e9:
            return False
    return False


class _Search:
    """All starts at once; what they end at is added to what is known."""

    def __init__(
        self,
        value: Map,
        both: MapWithSlope,
        visited: Tensor,
        iterations: int,
        tolerance: float,
        slow: float,
        marginal: float,
        local: slice | None = None,
    ) -> None:
        self.value, self.both, self.local, self.marginal = value, both, local, marginal
        self.iterations, self.tolerance, self.slow_speed = iterations, tolerance, slow
        self.points: list[FixedPoint] = []
        self.slow: list[SlowPoint] = []
        self.unconverged = self.starts = 0
        self.centre = visited.mean(0)
        self.radius = float((visited - self.centre).norm(dim=1).max()) + 1e-3
        self.visited = visited

    @torch.no_grad()
    def go(self, starts: Tensor) -> None:
        self.starts += len(starts)
        ends = _levenberg_marquardt(self.value, self.both, starts, self.iterations, self.local)
        ends = ends[torch.isfinite(ends).all(1)]
        ends, residuals = self._polish(ends)
        scale = 1 + ends.abs().amax(1)
        exact = residuals <= self.tolerance * scale
        self._add_points(ends[exact])
        lingering = self._look_below(ends[~exact]) if self.slow_speed > 0 else 0
        self.unconverged += len(starts) - int(exact.sum()) - lingering

    def _look_below(self, ends: Tensor) -> int:
        """Slow points below where starts came to a stop, and fixed points that lie there; how many of the ends led to one."""
        speeds = self._speeds(ends)
        near = (speeds < NEAR_SLOW * self.slow_speed).nonzero()[:, 0]
        near = near[speeds[near].argsort()][:MOST_SLOW]
        if not len(near):
            return 0
        below = _in_chunks(lambda part: minimise_speed(self.value, self.both, part, 2 * self.radius), ends[near])
        polished, residuals = self._polish(below.clone())
        exact = residuals <= self.tolerance * (1 + polished.abs().amax(1))
        # where gates close on the way to infinity, F(s) − s falls below any tolerance without a fixed point
        exact &= (polished - self.centre).norm(dim=1) <= 2 * self.radius
        self._add_points(polished[exact])
        rest = below[~exact]
        if not len(rest):
            return int(exact.sum())
        slope, change = _in_chunks(lambda part: slopes(self.both, part), rest).unbind(1)
        speeds = self._speeds(rest)
        lingering = (slope <= FLAT) & (change <= STILL) & (speeds < self.slow_speed)
        self._add_slow(rest[lingering], speeds[lingering], slope[lingering])
        return int(exact.sum()) + int(lingering.sum())

    def _speeds(self, s: Tensor) -> Tensor:
        return (self.value(s) - s).square().sum(1) / 2 if len(s) else torch.empty(0, dtype=s.dtype)

    def _is_far(self, state: Tensor) -> bool:
        return float((state - self.centre).norm()) > 2 * self.radius

    def _polish(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Newton where it helps: a few steps, each kept only if it comes closer."""
        if not len(s):
            return s, torch.empty(0, dtype=s.dtype)
        residual = (self.value(s) - s).abs().amax(1)
        moving = torch.ones(len(s), dtype=torch.bool)
        for _ in range(6):
            close = moving & (residual < 1e-2) & (residual > 1e-15)
            if not bool(close.any()):
                break
            part = s[close]
            move = _in_chunks(self._newton, part)
            tried = torch.where(torch.isfinite(move).all(1, keepdim=True), part + move, part)
            new = (self.value(tried) - tried).abs().amax(1)
            # Newton may leave for a point far away: only small moves are a polish
            better = (new < residual[close]) & (move.norm(dim=1) < 0.1 * (1 + part.norm(dim=1)))
            places = close.nonzero()[:, 0][better]
            s[places], residual[places] = tried[better], new[better]
            moving[close] = better  # from where it stays, the same step would be tried again
        return s, residual

    def _newton(self, s: Tensor) -> Tensor:
        after, J = self.both(s)
        move, failed = torch.linalg.solve_ex(J - torch.eye(s.shape[1], dtype=s.dtype), s - after)
        return torch.where((failed == 0)[:, None], move, torch.nan)

    def _add_points(self, found: Tensor) -> None:
        for state, count in _merged(found):
            if len(self.points) >= MOST:  # a continuum: more of its points tell nothing new
                return
            scale = 1 + float(state.norm())
            known = next((k for k, p in enumerate(self.points) if float((p.state - state).norm()) < SAME * scale), None)
            if known is not None:
                old = self.points[known]
                self.points[known] = replace(old, starts=old.starts + count)
                continue
            after, J = self.both(state[None])
            values = torch.linalg.eigvals(J[0])
            values = values[values.abs().argsort(descending=True)]
            sign, size = torch.linalg.slogdet(torch.eye(len(state), dtype=state.dtype) - J[0])
            degenerate = bool((values - 1).abs().min() < 1e-6) or not bool(torch.isfinite(size))
            self.points.append(
                FixedPoint(
                    state,
                    float((after[0] - state).abs().max()),
                    values,
                    count,
                    0 if degenerate else int(sign),
                    self._is_far(state),
                    marginal=self.marginal,
                )
            )

    def _add_slow(self, found: Tensor, speeds: Tensor, slope: Tensor) -> None:
        order = speeds.argsort()
        low, high = reachable_range(self.value, self.visited)
        for k in order.tolist():
            state = found[k]
            scale = 1 + float(state.norm())
            near = [p.state for p in self.points] + [p.state for p in self.slow]
            if any(float((other - state).norm()) < 1e-2 * scale for other in near):
                continue
            values = torch.linalg.eigvals(self.both(state[None])[1][0])
            values = values[values.abs().argsort(descending=True)]
            inside = bool(((low <= state) & (state <= high)).all())
            self.slow.append(SlowPoint(state, float(speeds[k]), values, float(slope[k]), self._is_far(state), inside))
            if len(self.slow) >= 200:
                return


def _merged(found: Tensor) -> list[tuple[Tensor, int]]:
    """Different points, and how many of the given ones are each."""
    left = found
    kept = []
    while len(left):
        same = (left - left[0]).norm(dim=1) < SAME * (1 + left[0].norm())
        kept.append((left[0], int(same.sum())))
        left = left[~same]
    return kept


def _in_chunks(move: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """`move` of some rows at a time: memory holds only so many Jacobians at once."""
    size = max(1, NUMBERS // rows[0].shape[1] ** 2)
    return torch.cat([move(*chunk) for chunk in zip(*(each.split(size) for each in rows), strict=True)])


@torch.no_grad()
def _levenberg_marquardt(
    value: Map, both: MapWithSlope, s: Tensor, iterations: int, local: slice | None = None
) -> Tensor:
    """Minimise ½‖F(s) − s‖² from every row; rows that have arrived, or move no more, take no further part."""
    s = s.clone()
    N = len(s)
    damping = torch.full((N,), 1e-2, dtype=s.dtype)
    stalled = torch.zeros(N, dtype=torch.int64)
    active = torch.arange(N)

    def move(part: Tensor, weight: Tensor) -> Tensor:
        after, A = both(part)
        A.diagonal(dim1=1, dim2=2).sub_(1)
        return levenberg_marquardt_step(A, after - part, weight, local)

    for _ in range(iterations):
        part = s[active]
        q = (value(part) - part).square().sum(1)
        moved = _in_chunks(move, part, damping[active])
        tried = torch.where(torch.isfinite(moved), part + moved, part)
        new_q = (value(tried) - tried).square().sum(1)
        better = new_q < q
        s[active[better]] = tried[better]
        damping[active] = torch.where(better, damping[active] / 5, damping[active] * 4).clamp(1e-14, 1e8)
        little = ~(new_q < 0.999 * q)
        stalled[active] = torch.where(little, stalled[active] + 1, torch.zeros_like(stalled[active]))
        best = torch.where(better, new_q, q)
        going = (best > 1e-20) & (stalled[active] < 12) & torch.isfinite(best)
        active = active[going]
        if not len(active):
            break
    return s
