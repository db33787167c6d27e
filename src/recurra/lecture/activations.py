"""Activation functions and their slopes: what a unit outputs, and what is left of a gradient that passes through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from
from recurra.lecture.scalar_case import SHOWN, _slope, _value
from recurra.results import Result, Table
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Activations(Result):
    """`values`, `slopes`: by name, φ(a) and φ′(a) at `a`."""

    a: Float[Tensor, " N"]
    values: dict[str, Float[Tensor, " N"]]
    slopes: dict[str, Float[Tensor, " N"]]

    def table(self) -> Table:
        rows = [
            (
                name,
                f"{float(y.min()):.3g} to {float(y.max()):.3g}",
                f"{float(self.slopes[name].max()):.3g}",
                f"{float(self.slopes[name][0]):.2g}, {float(self.slopes[name][-1]):.2g}",
            )
            for name, y in self.values.items()
        ]
        ends = f"slope at {float(self.a[0]):g} and {float(self.a[-1]):g}"
        return Table(("activation", "values", "largest slope", ends), rows)


def activations(names: Sequence[str] = SHOWN, low: float = -4.0, high: float = 4.0) -> Activations:
    """Activation functions and their slopes between two numbers: `tanh`, `sigmoid`, `relu`, `softplus`, `linear`.

    ```python
    found = rc.lecture.activations(("tanh", "sigmoid"))
    float(found.slopes["sigmoid"].max())        # 0.25, at 0
    ```
    """
    if not low < high:
        raise OptionError(f"activations: low must be below high; got {low} and {high}.")
    chosen = [choose_from("activation", name, SHOWN) for name in names]
    a = torch.linspace(low, high, 401, dtype=torch.float64)
    values, slopes = ({name: made(name, a) for name in chosen} for made in (_value, _slope))
    return Activations(a, values, slopes)
