"""Expressive power of rectifier networks: the network that is a given polygonal line, and the linear regions of any network.

A region is a set of inputs on which the same units are on, so that the network is one affine function there. Regions are found by
cutting, layer by layer: inside a region of the layers below, every unit is an affine function of the input, and its zero is a
point of a line or a straight line of a plane. Nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import OptionError, ShapeError
from recurra.models.feedforward import Feedforward, hidden_layers, weights_of
from recurra.results import Result

Array = npt.NDArray[np.float64]

SMALL = 1e-12
"""A cut that leaves less than this of a region, relative to its size and to the unit's weights, is none."""
MOST = 200_000
"""So many regions are counted; a network with more is refused."""


@dataclass(frozen=True, eq=False)
class Rectifier:
    """h ← max(0, W h + b) for each of `hidden`, then V h + c. With `residual`, from the second layer on, h is added.

    ```python
    W, b, V, c = np.eye(2), np.zeros(2), np.ones((1, 2)), np.zeros(1)
    network = rc.lecture.Rectifier(hidden=((W, b),), output=(V, c))
    y = network(np.ones((5, 2)))                       # [N, n] → [N, outputs]
    ```
    """

    hidden: tuple[tuple[Array, Array], ...]
    output: tuple[Array, Array]
    residual: bool = False

    @property
    def inputs(self) -> int:
        return int((self.hidden[0] if self.hidden else self.output)[0].shape[1])

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(b) for _, b in self.hidden)

    def __call__(self, x: Array) -> Array:
        h = np.asarray(x, dtype=np.float64)
        if h.ndim != 2 or h.shape[1] != self.inputs:
            raise ShapeError(f"the network reads [N, {self.inputs}]; got {list(h.shape)}.")
        for k, (W, b) in enumerate(self.hidden):
            y = np.maximum(h @ W.T + b, 0)
            h = h + y if self.residual and k else y
        V, c = self.output
        value: Array = h @ V.T + c
        return value

    def along(self, origin: Sequence[float] | Array, *directions: Sequence[float] | Array) -> Rectifier:
        """The network on a line or a plane: its inputs are the s of origin + s₁ · first (+ s₂ · second)."""
        start, axes = np.asarray(origin, dtype=np.float64), np.array(directions, dtype=np.float64)
        if start.shape != (self.inputs,) or axes.shape != (len(directions), self.inputs):
            raise ShapeError(f"origin and directions must be of {self.inputs} numbers each, as the network's input is.")
        length = np.linalg.norm(axes, axis=1, keepdims=True)
        if not length.all() or np.linalg.matrix_rank(axes / length) < len(axes):
            raise OptionError("the points must be different for a line, and not on one line for a plane.")
        (W, b), *above = (*self.hidden, self.output)
        first = (W @ axes.T, b + W @ start)
        return Rectifier((first, *above[:-1]), above[-1], self.residual) if above else Rectifier((), first)

    def frame(self) -> tuple[Array, Array]:
        """Where the first layer's zeros are, as a point and a size for each input: (x − point) / size is about 1 around them."""
        point, size = np.zeros(self.inputs), np.ones(self.inputs)
        if not self.hidden:
            return point, size
        W, b = self.hidden[0]
        weights = np.abs(W).max(0)
        size = 1 / np.where(weights > 0, weights, 1.0)
        point = size * np.linalg.lstsq(W * size, -b, rcond=None)[0]
        away = np.abs(W @ point + b).max()
        if (
            away < 1e-9 * np.abs(b).max()
        ):  # all zeros meet in that point: how far they are from 0 is the size that is left
            away = np.abs(b).max()
        return point, size * (away or 1.0)

    def seen(self, point: Array, size: Array) -> Rectifier:
        """The network as a function of (x − point) / size."""
        (W, b), *above = (*self.hidden, self.output)
        first = (W * size, b + W @ point)
        return Rectifier((first, *above[:-1]), above[-1], self.residual) if above else Rectifier((), first)


def rectifier_of(model: Feedforward) -> Rectifier:
    """The rectifier network that a trained model is, its scaling of inputs included.

    ```python
    rc.lecture.rectifier_of(rc.models.multilayer([2], 2, hidden_size=4))
    ```
    """
    layers = hidden_layers(model)
    if layers.activation.name != "relu" and len(layers.maps):
        raise OptionError(
            f"regions are those of rectifiers, but the activation is {layers.activation.name}. Use activation=relu."
        )
    mean, deviation = (each.detach().cpu().double().numpy().ravel() for each in model.scaling.buffers())
    if len(model.shape) != 1:
        raise OptionError(f"regions are counted for networks that read numbers; this one reads images {model.shape}.")
    maps = [(W.cpu().double().numpy(), b.cpu().double().numpy()) for W, b in weights_of(model)]
    if not all(np.isfinite(each).all() for pair in maps for each in pair):
        raise OptionError("the network has weights that are not finite numbers; it has no regions.")
    W, b = maps[0]
    maps[0] = (W / deviation, b - W @ (mean / deviation))
    return Rectifier(tuple(maps[:-1]), maps[-1], layers.residual)


# -- a polygonal line as a network -------------------------------------------------------------------------------------


def polygonal_network(points: Sequence[tuple[float, float]]) -> Rectifier:
    """The network with one hidden layer that equals a polygonal line: through its points, and on along its end pieces.

        g(x) = y₁ − s₀ (x₁ − x)₊ + s₁ (x − x₁)₊ + Σ_{i ≥ 2} (sᵢ − sᵢ₋₁) (x − xᵢ)₊

    s₀, s₁, … are the slopes of the m pieces and x₁, x₂, … the knots between them: m units for m ≥ 2 pieces. Each unit is off
    on one side of its knot, so that left of x₁ one is on, and after every further knot one more.

    ```python
    roof = rc.lecture.polygonal_network([(0, 0), (1, 2), (3, 1)])
    roof(np.array([[0.5]]))                            # [[1.0]]
    ```
    """
    if len(points) < 2 or any(len(point) != 2 for point in points):
        raise OptionError(f"a polygonal line needs at least two points x,y; got {len(points)}.")
    x, y = np.array(points, dtype=np.float64).T
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise OptionError("the points of a polygonal line must be finite numbers.")
    back = np.flatnonzero(np.diff(x) <= 0)
    if len(back):
        k = int(back[0])
        raise OptionError(
            f"the points must go from left to right, but x = {x[k + 1]:g} comes after x = {x[k]:g}. Sort them, none twice."
        )
    slopes = np.diff(y) / np.diff(x)
    if not np.isfinite(slopes).all():
        raise OptionError("two points are so close that the slope between them is not finite. Move them apart.")
    if len(x) == 2:  # a straight line: its only knot is its first point, with the same slope on both sides
        knots, height, slopes = x[:1], y[0], np.repeat(slopes, 2)
    else:
        knots, height = x[1:-1], y[1]
    W = np.array([-1.0, *np.ones(len(knots))])[:, None]
    b = np.array([knots[0], *-knots])
    V = np.array([[-slopes[0], slopes[1], *np.diff(slopes[1:])]])
    return Rectifier(((W, b),), (V, np.array([height])))


# -- bounds ------------------------------------------------------------------------------------------------------------


def most_regions(hyperplanes: int, dimensions: int) -> int:
    """Σ_{j ≤ n} C(m, j): what m hyperplanes can cut n dimensions into, and do in general position. Zaslavsky 1975.

    ```python
    rc.lecture.most_regions(3, 2)                                   # three lines cut a plane into 7
    ```
    """
    return sum(math.comb(hyperplanes, j) for j in range(dimensions + 1))


def upper_bound(inputs: int, widths: Sequence[int]) -> int:
    """No network of this shape has more regions: each layer cuts each region below like hyperplanes in as many dimensions as
    are left, Π_k Σ_{j ≤ d_k} C(m_k, j) with d_k = min(n, m₁, …, m_{k−1}). For one layer it is `most_regions`.

    Residual connections, which join layers of one width, change nothing about it. Montúfar 2017, Notes on the number of linear
    regions of deep neural networks.

    ```python
    rc.lecture.upper_bound(2, [8, 8])
    ```
    """
    bound, dimensions = 1, inputs
    for width in widths:
        bound *= most_regions(width, dimensions)
        dimensions = min(dimensions, width)
    return bound


def lower_bound(inputs: int, widths: Sequence[int]) -> int | None:
    """The best network of this shape has at least (Π_{k<L} ⌊m_k / n⌋ⁿ) Σ_{j ≤ n} C(m_L, j) regions.

    For equal widths m that is Ω((m/n)^{(L−1)n} mⁿ): exponential in the number of layers L, polynomial in m. `folding_network` is
    one that has them. It bounds the best network of a shape, not a given one; `None` where a layer is narrower than the input.
    Montúfar, Pascanu, Cho & Bengio 2014, theorem 5.

    ```python
    rc.lecture.lower_bound(2, [8, 8])
    ```
    """
    if not widths:
        return 1
    if min(widths) < inputs:
        return None
    repeated: int = math.prod((width // inputs) ** inputs for width in widths[:-1])
    return repeated * most_regions(widths[-1], inputs)


def folding_network(inputs: int, widths: Sequence[int], seed: int = 0) -> Rectifier:
    """A network that reaches the lower bound, on a line or a plane: all layers but the last fold each coordinate ⌊m/n⌋ times
    onto [0, 1], so that what the last layer cuts [0, 1]ⁿ into is repeated in every fold.

        fold(x) = (p x)₊ + Σ_{i = 1 … p−1} (−1)ⁱ 2 (p x − i)₊        of [0, 1], p times up and down

    ```python
    len(rc.lecture.regions_on_line(rc.lecture.folding_network(1, [4, 4]), 0, 1))
    ```
    """
    if inputs not in (1, 2):
        raise OptionError(f"folding_network is for a line or a plane: 1 or 2 inputs; got {inputs}.")
    if not widths or min(widths) < inputs:
        raise OptionError(f"every layer must be at least as wide as the {inputs} inputs; got {list(widths)}.")
    hidden = []
    read, shift = np.eye(inputs), np.zeros(inputs)  # how the layer below is added up to coordinates
    for width in widths[:-1]:
        folds = width // inputs
        steps = np.arange(folds, dtype=np.float64)
        W = np.zeros((width, inputs))
        b = np.zeros(width)
        following = np.zeros((inputs, width))
        for k in range(inputs):
            own = slice(k * folds, (k + 1) * folds)
            W[own, k], b[own] = folds, -steps
            following[k, own] = np.where(steps == 0, 1.0, 2.0 * (-1.0) ** steps)
        b[inputs * folds :] = -1.0  # units that are left over never switch on
        hidden.append((W @ read, b + W @ shift))
        read, shift = following, np.zeros(inputs)
    W, b = _all_cutting(inputs, widths[-1], seed)
    hidden.append((W @ read, b + W @ shift))
    return Rectifier(tuple(hidden), (np.ones((1, widths[-1])), np.zeros(1)))


def _all_cutting(inputs: int, width: int, seed: int) -> tuple[Array, Array]:
    """Points or lines in [0, 1]ⁿ in general position, every crossing of two inside: they pass near the centre, lines at even
    angles, each pushed a little at random."""
    angles = np.pi * np.arange(width) / width
    W = np.stack([np.cos(angles), np.sin(angles)], axis=1) if inputs == 2 else np.ones((width, 1))
    b = -W @ np.full(inputs, 0.5) + 0.4 / max(width, 2) * np.random.default_rng(seed).uniform(-1, 1, width)
    return W, b


# -- counting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LineRegions(Result):
    """The regions of a network on a line, from left to right.

    - `breaks`: where one ends and the next begins; there is one region more than breaks.
    - `slopes`, `heights`: the affine function y = slope · s + height of each region, for every output.
    - `pieces`: how many remain where neighbours with the same function (to rounding) count as one.
    """

    breaks: Array
    slopes: Array
    heights: Array
    pieces: int

    def __len__(self) -> int:
        return len(self.slopes)

    def __str__(self) -> str:
        return f"{len(self):,} linear regions on a line, {self.pieces:,} different pieces"

    def to_json(self) -> dict[str, Any]:
        return {"regions": len(self), "pieces": self.pieces}

    def arrays(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(getattr(self, name)) for name in ("breaks", "slopes", "heights")}


def regions_on_line(network: Rectifier, low: float = -math.inf, high: float = math.inf) -> LineRegions:
    """Walk along the line from break to break. The network has one input: restrict it with `along` otherwise.

    - `low`, `high`: the ends of the line; without them, it is infinite.

    ```python
    len(rc.lecture.regions_on_line(rc.lecture.folding_network(1, [6]), 0, 1))
    ```
    """
    if network.inputs != 1:
        raise ShapeError(f"a line has one coordinate, but the network reads {network.inputs}. Use network.along(a, b).")
    if not low < high:
        raise OptionError(f"a line goes from low to high; got {low} and {high}.")
    point, size = network.frame()
    if math.isfinite(low) and math.isfinite(high):
        point, size = np.array([(low + high) / 2]), np.array([(high - low) / 2])
    near = network.seen(point, size)
    found = _walk(near, (low - point[0]) / size[0], (high - point[0]) / size[0])
    V, c = near.output
    slopes, heights = np.array([V @ each[2] for each in found]), np.array([V @ each[3] + c for each in found])
    breaks = point + size * np.array([each[0] for each in found[1:]])
    return LineRegions(breaks, slopes / size, heights - slopes * (point / size), 1 + _changes(slopes))


def _walk(network: Rectifier, low: float, high: float) -> list[tuple[float, float, Array, Array]]:
    """The intervals on which the last hidden layer is slope · s + height: their ends, and those functions."""
    found: list[tuple[float, float, Array, Array]] = [(low, high, np.ones(1), np.zeros(1))]
    for k, (W, b) in enumerate(network.hidden):
        cut = []
        for left, right, slope, height in found:
            a, c = W @ slope, W @ height + b
            with np.errstate(divide="ignore", invalid="ignore"):
                zeros = -c / a
            for start, end in pairwise(_apart(left, zeros[np.isfinite(zeros)], right)):
                on = a * _between(start, end) + c > 0
                kept = (slope, height) if network.residual and k else (0.0, 0.0)
                cut.append((start, end, a * on + kept[0], c * on + kept[1]))
        found = cut
        if len(found) > MOST:
            raise OptionError(f"the network has more than {MOST:,} regions on this line. Ask for a part of it.")
    return found


def _apart(low: float, zeros: Array, high: float) -> list[float]:
    """The ends of the parts that zeros cut an interval into. Zeros on one another, or on an end, cut once or not at all."""
    ends = [low]
    for zero in np.sort(zeros).tolist():
        least = SMALL * max(1.0, abs(zero))
        if zero - ends[-1] > least and high - zero > least:
            ends.append(zero)
    return [*ends, high]


def _between(start: float, end: float) -> float:
    if math.isinf(start) and math.isinf(end):
        return 0.0
    if math.isinf(start):
        return end - 1.0 - abs(end)
    if math.isinf(end):
        return start + 1.0 + abs(start)
    return 0.5 * (start + end)


def _changes(slopes: Array) -> int:
    """How often neighbours have another affine function: as they meet where they change, another slope."""
    size = np.abs(slopes).max(initial=0.0) or 1.0
    return int((np.abs(np.diff(slopes, axis=0)) > 1e-9 * size).any(1).sum())


@dataclass(frozen=True, eq=False)
class PlaneRegions(Result):
    """The regions of a network on a plane, or on a window of it.

    - `patterns`: for each region, which unit of which layer is on, `[R, units]`. No two are the same.
    - `polygons`: the corners of each region `[corners, 2]`, in order; empty for the whole plane, where
      unbounded regions have no such corners.
    """

    patterns: npt.NDArray[np.bool_]
    polygons: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.patterns)

    def __str__(self) -> str:
        return f"{len(self):,} linear regions on {'a window of ' if self.polygons else ''}a plane"

    def to_json(self) -> dict[str, Any]:
        return {"regions": len(self)}

    def arrays(self) -> dict[str, Tensor]:
        return {"patterns": torch.from_numpy(self.patterns)}


def regions_on_plane(
    network: Rectifier, low: Sequence[float] | None = None, high: Sequence[float] | None = None
) -> PlaneRegions:
    """Cut the plane by every unit, layer by layer. The network has two inputs: restrict it with `along` otherwise.

    - `low`, `high`: two corners of a window; without them, the whole plane.

    Points are written as rays (x, y, w), which are the points (x, y)/w, and directions at infinity for w = 0; a region is the
    cone between a few rays, also an unbounded one. The plane is four such cones, its quadrants; a region that lies in several
    of them has the same pattern in each.

    ```python
    len(rc.lecture.regions_on_plane(rc.lecture.folding_network(2, [4, 4]), (0, 0), (1, 1)))
    ```
    """
    if network.inputs != 2:
        raise ShapeError(
            f"a plane has two coordinates, but the network reads {network.inputs}. Use network.along(origin, first, second)."
        )
    if low is None or high is None:
        origin, x, y = np.eye(3)[[2, 0, 1]]
        whole = [np.array([origin, a * x, b * y]) for a in (1, -1) for b in (1, -1)]
        near = network.seen(*network.frame())
        found = [region for cone in whole for region in _cut_all(near, cone)]
        return PlaneRegions(np.unique(np.array([pattern for _, pattern in found]), axis=0), ())
    (x0, y0), (x1, y1) = low, high
    if not (x0 < x1 and y0 < y1 and np.isfinite([x0, y0, x1, y1]).all()):
        raise OptionError(f"a window has a lower left and an upper right corner; got {list(low)} and {list(high)}.")
    point, size = np.array([(x0 + x1) / 2, (y0 + y1) / 2]), np.array([(x1 - x0) / 2, (y1 - y0) / 2])
    window = np.array([[-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]], dtype=np.float64)
    found = list(_cut_all(network.seen(point, size), window))
    return PlaneRegions(
        np.array([pattern for _, pattern in found]),
        tuple(point + size * rays[:, :2] / rays[:, 2:] for rays, _ in found),
    )


def _cut_all(network: Rectifier, cone: Array) -> Iterator[tuple[Array, npt.NDArray[np.bool_]]]:
    """The regions inside a cone, with their patterns."""
    start = np.array([[1.0, 0, 0], [0, 1, 0]])  # the inputs as functions of a ray
    found: list[tuple[Array, Array, list[npt.NDArray[np.bool_]]]] = [(_unit(cone), start, [])]
    for k, (W, b) in enumerate(network.hidden):
        cut = []
        for rays, below, pattern in found:
            units = W @ below
            units[:, 2] += b
            for part in _cut(rays, units):
                on = (units @ part.mean(0)) > 0
                above = units * on[:, None]
                cut.append((part, above + below if network.residual and k else above, [*pattern, on]))
            if len(cut) > MOST:
                raise OptionError(f"the network has more than {MOST:,} regions here. Ask for a smaller window.")
        found = cut
    for rays, _, pattern in found:
        yield rays, np.concatenate([np.zeros(0, dtype=bool), *pattern])


def _cut(rays: Array, units: Array) -> Iterator[Array]:
    """A cone, cut by the zeros of all units that have one inside."""
    waiting = [(rays, units)]
    while waiting:
        rays, units = waiting.pop()
        sides = rays @ units.T
        slack = SMALL * np.linalg.norm(units, axis=1)
        crossing = (sides > slack).any(0) & (sides < -slack).any(0)
        if not crossing.any():
            yield rays
            continue
        first = int(crossing.argmax())
        left = units[crossing][1:]
        waiting += [(half, left) for half in _halves(rays, sides[:, first], slack[first])]


def _halves(rays: Array, side: Array, slack: float) -> Iterator[Array]:
    """The two parts of a cone on either side of a line: the rays of that side, and those where the border crosses over."""
    after = np.roll(np.arange(len(rays)), -1)
    crosses = (side * side[after] < 0) & (np.abs(side) > slack) & (np.abs(side[after]) > slack)
    share = np.abs(side) / np.where(crosses, np.abs(side) + np.abs(side[after]), 1.0)
    between = _unit(rays + share[:, None] * (rays[after] - rays))
    for sign in (1.0, -1.0):
        part = []
        for k in range(len(rays)):
            if sign * side[k] > -slack:
                part.append(rays[k])
            if crosses[k]:
                part.append(between[k])
        yield np.array(part)


def _unit(rays: Array) -> Array:
    length: Array = np.linalg.norm(rays, axis=1, keepdims=True)
    return rays / length
