"""The echo state property: the initial state fades, and the state becomes a function of the input alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.results import Result
from recurra.types import Float

FLOOR = 1e-13
"""Distances below this share of the first are rounding."""


@dataclass(frozen=True, eq=False)
class Echo(Result):
    """Whether, and how fast, two starts come together under the same input.

    - `distances`: between the states after each step, as a share of the first.
    - `rate`: the factor of a step, on average until the distance is lost in rounding. Below 1 the starts come together.
    - `radius`: the largest |λ| of all recurrent matrices. Below 1 is the rule of thumb; it is neither needed nor enough.
    - `bound`: max α + ‖(1 − α) U‖ over all layers, for units that keep the share α of their state. Below 1 the property holds for
      every input; most reservoirs that work are above it. `None` for a cell other than `leaky`.
    """

    distances: Float[Tensor, " T"]
    rate: float
    radius: float
    bound: float | None

    @property
    def holds(self) -> bool:
        """Whether the starts came together here, to a thousandth at most."""
        return float(self.distances[-1]) < 1e-3

    def __str__(self) -> str:
        ends = "come together" if self.holds else "do not come together"
        certain = "" if self.bound is None or self.bound >= 1 else "; under every input, since the bound is below 1"
        bound = "unknown" if self.bound is None else f"{self.bound:.3g}"
        return (
            f"two starts {ends}: ×{self.rate:.4g} a step, {float(self.distances[-1]):.1e} left after "
            f"{len(self.distances)}{certain} (spectral radius {self.radius:.3g}, bound {bound})"
        )

    def to_json(self) -> dict[str, Any]:
        return {"holds": self.holds} | super().to_json()

    def arrays(self) -> dict[str, Tensor]:
        return {"distances": self.distances}


@torch.no_grad()
def echo_state(layer: Recurrent, x: Float[Tensor, "T D"], seed: int = 0) -> Echo:
    """Run two random starts under the same input, and measure how far apart they stay.

    ```python
    echo = rc.analysis.echo_state(rc.Recurrent("elman", 1, 50, init=rc.spectral_radius(0.9)), torch.randn(300, 1))
    echo.holds, echo.rate       # True, 0.93
    ```
    """
    if len(x) < 2:
        raise OptionError(f"the echo state property is seen over at least 2 steps; got {len(x)}.")
    random = torch.Generator().manual_seed(seed)
    first = tuple(
        tuple(
            tuple(torch.rand(h.shape, generator=random, dtype=torch.float64).mul(2).sub(1).to(h) for h in cell)
            for cell in layers
        )
        for layers in layer.initial_state(2)
    )
    trace = layer(x.expand(2, -1, -1), first, record=True)
    assert trace.record is not None
    apart = sum(
        (one[name][0] - one[name][1]).square().sum(-1)
        for layers, cell in zip(trace.record, layer.cells, strict=True)
        for one in layers
        for name in cell.states
    )
    start = sum((h[0] - h[1]).square().sum() for layers in first for cell in layers for h in cell)
    distances = (torch.as_tensor(apart) / torch.as_tensor(start)).sqrt().double().cpu()
    lost = (distances < FLOOR).nonzero()
    steps = int(lost[0]) + 1 if len(lost) else len(distances)
    rate = float(distances[steps - 1].clamp(min=FLOOR / 10)) ** (1 / steps)
    return Echo(distances, rate, _radius(layer), _bound(layer))


def _radius(layer: Recurrent) -> float:
    matrices = [
        one.matrix(name) for directions in layer.stack for one in directions for name in one.cell.graph.matrices
    ]
    return max((float(torch.linalg.eigvals(each.double()).abs().max()) for each in matrices), default=0.0)


def _bound(layer: Recurrent) -> float | None:
    """tanh never stretches a distance, so that a step does so by α + ‖(1 − α) U‖ at most. Jaeger 2001; Jaeger et al. 2007."""
    if any(cell.name != "leaky" for cell in layer.cells):
        return None
    largest = -math.inf
    for directions in layer.stack:
        for one in directions:
            U = one.matrix("h").double()
            alpha = torch.as_tensor(one.unit_values().get("alpha", one.cell.options.get("alpha"))).to(U).expand(len(U))
            norm = torch.linalg.matrix_norm((1 - alpha)[:, None] * U, 2)
            largest = max(largest, float(alpha.max() + norm))
    return largest
