"""Whether numbers are still sound: weights that are finite, a loss that has not exploded, a model that fits into memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from recurra.errors import OptionError, RunError

PATIENCE = 20
"""Steps in a row with a loss that is too high, after which it has exploded."""
RATIO = 50
"""How many times as high as at first a loss is then, where losses below 1 count as 1."""


class LossWatch:
    """Tells a loss that has exploded, though every number is finite, from one that jumps.

    ```python
    watch = LossWatch()
    watch.see(1.6)                                  # ""
    [watch.see(500.0) for _ in range(20)][-1]       # "the loss exploded: 500, where it began with 1.6."
    ```
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.high = 0

    def see(self, loss: float) -> str:
        """The sentence about a loss that has exploded; nothing while it has not."""
        if not math.isfinite(loss):
            return ""
        if self.first is None:
            self.first = loss
        self.high = self.high + 1 if loss > RATIO * (1 + abs(self.first)) else 0
        return f"the loss exploded: {loss:.4g}, where it began with {self.first:.4g}." if self.high >= PATIENCE else ""

    def state(self) -> dict[str, float | None]:
        return {"first": self.first, "high": self.high}

    def restore(self, saved: Mapping[str, float | None]) -> None:
        self.first, self.high = saved.get("first"), int(saved.get("high") or 0)


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether every number is; the device is waited for once."""
    parts = [each.isfinite().all() for each in tensors]
    return bool(torch.stack(parts).all()) if parts else True


def check_weights(weights: Mapping[str, Tensor], about: str) -> None:
    """Refuse a checkpoint with NaN or ±inf: nothing that is computed from it would be a number.

    - `about`: which checkpoint, for the message.
    """
    for name, value in weights.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise RunError(
                f"{about} holds NaN or ±inf in {name:.60}, and nothing can go on from it. checkpoints/best, or the checkpoint "
                "before it (remove checkpoints/last to use that one), may be sound."
            )


@contextmanager
def enough_memory() -> Iterator[None]:
    """An allocation that fails inside becomes one sentence; what a run folder holds stays."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _too_large(error) from error
    except RuntimeError as error:
        if "allocate" not in str(error) and "Storage size" not in str(error):
            raise
        raise _too_large(error) from error


def _too_large(error: Exception) -> OptionError:
    found = " ".join(str(error).split())[-120:] or "MemoryError"
    return OptionError(
        f"this does not fit into memory ({found}). Choose smaller sizes of the model, the batch, the truncation or the data."
    )
