"""Per-unit parameters of a cell: learned or fixed, one number for all units, groups of units, or a ramp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import OptionError


@dataclass(frozen=True)
class Ramp:
    """Values that go evenly from `low` to `high` over the units.

    ```python
    @rc.cell
    def graded(x, U, h, *, keep=rc.Learned(rc.Ramp(0.5, 0.99), low=0, high=1)):
        return keep * h + (1 - keep) * rc.tanh(x.h + U.h(h))
    ```
    """

    low: float
    high: float

    def __call__(self, size: int) -> Tensor:
        return torch.linspace(self.low, self.high, size, dtype=torch.float64)

    def __repr__(self) -> str:
        return f"{self.low:g} … {self.high:g}"


@dataclass(frozen=True)
class Scattered(Ramp):
    """Values between `low` and `high` in an order without pattern: two scattered parameters with other `step`s do not go
    together, and any few neighbours cover the interval. Multiples of an irrational number, without their whole part.

    ```python
    @rc.cell
    def mixed(x, U, h, *, keep=rc.Fixed(rc.Scattered(0.5, 0.99))):
        return keep * h + (1 - keep) * rc.tanh(x.h + U.h(h))
    ```
    """

    step: float = 0.6180339887498949

    def __call__(self, size: int) -> Tensor:
        places = torch.remainder((torch.arange(size, dtype=torch.float64) + 0.5) * self.step, 1.0)
        return self.low + (self.high - self.low) * places

    def __repr__(self) -> str:
        return f"{self.low:g} … {self.high:g}, scattered"


@dataclass(frozen=True)
class Groups:
    """Groups of units, in order, each with its own value: as equal in size as they can be, whatever the number of units.

    ```python
    @rc.cell
    def paced(x, U, h, *, pace=rc.Fixed(rc.Groups([0.1, 0.5, 0.9]))):
        return (1 - pace) * h + pace * rc.tanh(x.h + U.h(h))
    ```
    """

    values: Sequence[float]

    def __call__(self, size: int) -> Tensor:
        values = torch.tensor([float(v) for v in self.values], dtype=torch.float64)
        return values[torch.arange(size) * len(values) // size]

    def __repr__(self) -> str:
        return f"Groups({[float(v) for v in self.values]})"


First = float | Sequence[float] | Ramp | Groups | Tensor
"""A first value: one number for all units, a list (groups of units of one size, in order), a tensor with one number for each
unit, `Groups`, a `Ramp`, or `Scattered`."""


def spread(value: First, size: int, about: str = "a parameter") -> Tensor:
    """`value` as one number per unit."""
    if isinstance(value, Ramp | Groups):
        return value(size)
    if isinstance(value, (int, float)):
        return torch.full((size,), float(value), dtype=torch.float64)
    values = torch.tensor([float(v) for v in value], dtype=torch.float64)
    each = not isinstance(value, list | tuple) or not value
    if (each and len(values) != size) or size % len(values):
        remedy = (
            "Pass one for each unit."
            if each
            else f"Take a number of units that {len(values)} divides, or Groups({list(value)})."
        )
        raise OptionError(f"{about} has {len(values)} values for {size} units. {remedy}")
    return values.repeat_interleave(size // len(values))


@dataclass(frozen=True)
class Learned:
    """A per-unit parameter that is trained, kept between `low` and `high` where they are given.

    ```python
    @rc.cell
    def leaking(x, U, h, *, keep=rc.Learned(0.9, low=0, high=1)):
        return keep * h + (1 - keep) * rc.tanh(x.h + U.h(h))
    ```
    """

    value: First
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        values = spread(
            self.value, 64 if isinstance(self.value, int | float | Ramp | Groups) else max(1, len(self.value))
        )
        if (self.low is not None and bool((values <= self.low).any())) or (
            self.high is not None and bool((values >= self.high).any())
        ):
            raise OptionError(f"{self!r} starts outside its open interval. Pass a value strictly between low and high.")

    def __repr__(self) -> str:
        bounds = "".join(f", {name}={v:g}" for name, v in (("low", self.low), ("high", self.high)) if v is not None)
        return f"Learned({_plain(self.value)}{bounds})"


@dataclass(frozen=True)
class Fixed:
    """A per-unit parameter that is not trained: `Fixed([1, 2, 4, 8])` gives four equal groups of units their own value.

    ```python
    @rc.cell
    def paced(x, U, h, *, pace=rc.Fixed([0.1, 0.9])):
        return (1 - pace) * h + pace * rc.tanh(x.h + U.h(h))        # half of the units are slow
    ```
    """

    value: First

    def __repr__(self) -> str:
        return f"Fixed({_plain(self.value)})"


def _plain(value: First) -> str:
    return (
        f"{value:g}"
        if isinstance(value, (int, float))
        else repr(value)
        if isinstance(value, Ramp)
        else str(list(value.values if isinstance(value, Groups) else value))
    )
