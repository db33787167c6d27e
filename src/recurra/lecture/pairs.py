"""Which gradients a truncation keeps: the loss at step t reaches the step t − k if f(t) ≤ t − k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.results import Result
from recurra.training.truncation import read_truncation


@dataclass(frozen=True, eq=False)
class Pairs(Result):
    """The pairs (t, k) of a sequence, t from 0, whose gradient a truncation keeps.

    - `kept`: at `[t, k]`, whether the gradient of the loss at step t reaches step t − k.
    """

    truncation: str
    kept: Tensor

    @property
    def share(self) -> float:
        """Of all pairs that there are."""
        T = len(self.kept)
        return float(self.kept.sum()) / (T * (T + 1) / 2)

    def __str__(self) -> str:
        return f"{self.truncation} keeps {100 * self.share:.0f} % of the pairs of {len(self.kept)} steps"

    def to_json(self) -> dict[str, Any]:
        return {"truncation": self.truncation, "share": self.share, "reach": self.kept.sum(1).tolist()}


def kept_pairs(truncation: str, steps: int) -> Pairs:
    """The pairs that `none`, `every:K` or `window:K` keeps of a sequence of so many steps.

    ```python
    print(rc.lecture.kept_pairs("every:8", 24))
    rc.lecture.kept_pairs("window:3", 24).kept[10]                  # k = 0 … 3 are kept
    ```
    """
    how = read_truncation(truncation)
    if not 1 <= steps <= 4096:
        raise OptionError(f"steps must be 1 to 4096; got {steps}.")
    t, k = torch.arange(steps)[:, None], torch.arange(steps)[None]
    earliest = torch.tensor([how.earliest(step) for step in range(steps)])[:, None]
    return Pairs(str(how), (t - k) >= earliest)


@dataclass(frozen=True)
class Truncations(Result):
    """The pairs that several truncations keep of the same sequence."""

    forms: tuple[Pairs, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.forms))


def compare_truncations(steps: int, k: int) -> Truncations:
    """The three forms side by side: none, `every:K` and `window:K`.

    ```python
    print(rc.lecture.compare_truncations(steps=8, k=3))
    rc.lecture.compare_truncations(steps=8, k=3).plot("truncations.svg")
    ```
    """
    return Truncations(tuple(kept_pairs(form, steps) for form in ("none", f"every:{k}", f"window:{k}")))
