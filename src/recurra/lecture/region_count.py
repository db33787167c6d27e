"""How many linear regions a rectifier network has, beside the bounds; and the polygonal line as a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recurra.errors import OptionError
from recurra.lecture.regions import (
    PlaneRegions,
    Rectifier,
    lower_bound,
    most_regions,
    polygonal_network,
    rectifier_of,
    regions_on_line,
    regions_on_plane,
    upper_bound,
)
from recurra.models.feedforward import Feedforward
from recurra.results import Result, Table

Window = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, eq=False)
class RegionCount(Result):
    """Linear regions by where they were counted, and what the shape of the network allows.

    - `counts`: by place in words. `found`: the same for other programs. `upper`, `lower`: no network of this shape has more, the
      best one has at least so many. `inside`: the regions of a window of the plane, which can be drawn.
    """

    network: Rectifier
    counts: dict[str, int]
    found: dict[str, Any]
    upper: int
    lower: int | None
    inside: PlaneRegions | None = None
    labels: dict[str, Any] = field(default_factory=dict)

    def table(self) -> Table:
        rows = [[place, f"{count:,}"] for place, count in self.counts.items()]
        rows.append(["no network of this shape has more than", f"{self.upper:,}"])
        if self.lower is not None:
            rows.append(["the best network of this shape has at least", f"{self.lower:,}"])
        shape = " + ".join(str(width) for width in self.network.widths) or "no"
        return Table(["linear regions", ""], rows, f"{self.network.inputs} inputs, {shape} rectifiers")

    def to_json(self) -> dict[str, Any]:
        shape = {"inputs": self.network.inputs, "widths": list(self.network.widths)}
        return shape | self.found | {"bounds": {"upper": self.upper, "lower": self.lower}}

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        if self.inside is None:
            raise OptionError("a picture is of a plane; leave the line out.")
        return self.inside.plot(file, network=self.network, **self.labels | options)


def count_regions(
    model: Feedforward,
    line: Sequence[Sequence[float]] | None = None,
    window: Callable[[], Window] | None = None,
    labels: Callable[[], dict[str, Any]] | None = None,
) -> RegionCount:
    """The regions of a network of two inputs in the plane, and in a window of it; or on the line through two points.

    - `window`: gives the smallest and the largest value of each input. `labels`: names and points for the picture.

    ```python
    model = rc.models.multilayer([2], 2, hidden_size=8, layers=1)
    rc.lecture.count_regions(model, line=[(0, 0), (1, 1)])
    ```
    """
    network = rectifier_of(model)
    inside = None
    if line is not None:
        ends = np.array(line, dtype=np.float64)
        if ends.shape != (2, network.inputs):
            raise OptionError(f"a line needs two points of {network.inputs} numbers each; got {ends.shape}.")
        along = network.along(ends[0], ends[1] - ends[0])
        whole, between = regions_on_line(along), regions_on_line(along, 0.0, 1.0)
        counts = {"the whole line": len(whole), "between the two points": len(between)}
        found: dict[str, Any] = {
            "line": {"regions": len(whole), "pieces": whole.pieces, "between_points": len(between)}
        }
        dimensions = 1
    else:
        if network.inputs != 2:
            raise OptionError(
                f"a plane has two inputs, and this network has {network.inputs}. Count on a line: --line."
            )
        low, high = window() if window is not None else ([-1.0, -1.0], [1.0, 1.0])
        inside, everywhere = regions_on_plane(network, low, high), regions_on_plane(network)
        counts = {"the whole plane": len(everywhere), "around the training data": len(inside)}
        limits = {"low": list(low), "high": list(high), "regions": len(inside)}
        found = {"plane": {"regions": len(everywhere), "window": limits}}
        dimensions = 2
    bounds = upper_bound(dimensions, network.widths), lower_bound(dimensions, network.widths)
    return RegionCount(network, counts, found, *bounds, inside, {} if labels is None else labels())


@dataclass(frozen=True, eq=False)
class PolygonalLine(Result):
    """The network that is a polygonal line: y = c + Σ v_k max(0, w_k x + b_k)."""

    network: Rectifier
    pieces: int
    most: int

    def _units(self) -> list[dict[str, float]]:
        (W, b), (V, _) = self.network.hidden[0], self.network.output
        values = zip(W[:, 0], b, V[0], strict=True)
        return [{"weight": float(w), "bias": float(bias), "output": float(v)} for w, bias, v in values]

    def table(self) -> Table:
        rows = [[str(k), *(f"{v:.17g}" for v in unit.values())] for k, unit in enumerate(self._units(), start=1)]
        return Table(["unit", "weight", "bias", "output weight"], rows)

    def __str__(self) -> str:
        constant = f"y = {self.network.output[1][0]:.17g} + Σ output weight · max(0, weight · x + bias)"
        return f"{self.table()}\n{constant}\n{self.pieces} linear pieces; {len(self._units())} units can make {self.most} at most"

    def to_json(self) -> dict[str, Any]:
        bias = float(self.network.output[1][0])
        return {"units": self._units(), "bias": bias, "pieces": self.pieces, "bounds": {"zaslavsky": self.most}}


def polygonal_line(points: Sequence[tuple[float, float]]) -> PolygonalLine:
    """The network through the points, with as many units as it has bends.

    ```python
    rc.lecture.polygonal_line([(0, 0), (1, 2), (3, 1)])
    ```
    """
    network = polygonal_network(points)
    return PolygonalLine(network, regions_on_line(network).pieces, most_regions(len(network.hidden[0][1]), 1))
