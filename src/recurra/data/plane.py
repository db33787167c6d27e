"""Points of a plane in classes that no straight line separates: synthetic, each from its seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from recurra.data.classes import Labelled
from recurra.errors import OptionError, choose_from
from recurra.types import Float, Int

TURNS = 1.75
"""How often an arm of a spiral goes round."""


def spirals(random: torch.Generator, labels: Int[Tensor, " N"]) -> Float[Tensor, "N 2"]:
    """Two arms that wind round each other. Lang & Witbrock 1988."""
    along = torch.rand(len(labels), generator=random, dtype=torch.float64)
    radius, angle = 0.1 + 0.9 * along, 2 * math.pi * TURNS * along + math.pi * labels
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def xor(random: torch.Generator, labels: Int[Tensor, " N"]) -> Float[Tensor, "N 2"]:
    """The first class where both coordinates have the same sign, the second where they differ. Minsky & Papert 1969."""
    x = 2 * torch.rand(len(labels), 2, generator=random, dtype=torch.float64) - 1
    wrong = (x[:, 0] * x[:, 1] < 0) != (labels == 1)
    x[:, 1] = torch.where(wrong, -x[:, 1], x[:, 1])
    return x


def circles(random: torch.Generator, labels: Int[Tensor, " N"]) -> Float[Tensor, "N 2"]:
    """A disc, and a ring round it."""
    angle = 2 * math.pi * torch.rand(len(labels), generator=random, dtype=torch.float64)
    spread = torch.rand(len(labels), generator=random, dtype=torch.float64)
    radius = torch.where(labels == 1, 0.7 + 0.3 * spread, 0.5 * spread.sqrt())
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


TASKS: dict[str, Callable[[torch.Generator, Tensor], Tensor]] = {f.__name__: f for f in (spirals, xor, circles)}


def synthetic(task: str, count: int, seed: int = 0, noise: float = 0.0) -> Labelled:
    """`count` points of a task, as many of each class as can be.

    ```python
    points = rc.data.synthetic_points("spirals", 1000, noise=0.02)
    points.x, points.labels                            # [1000, 2] in [−1, 1], and 0 or 1
    ```

    - `noise`: the standard deviation of what is added to each coordinate.
    """
    draw = TASKS[choose_from("task", task, TASKS)]
    if count < 2:
        raise OptionError(f"{task}: count must be at least 2, one of each class; got {count}.")
    if not (noise >= 0 and math.isfinite(noise)):
        raise OptionError(f"{task}: noise must not be negative; got {noise}.")
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    x = draw(random, labels) + noise * torch.randn(count, 2, generator=random, dtype=torch.float64)
    return Labelled(x, labels, ("0", "1"), ("x", "y"), about=f"{task}: {count:,} points")
