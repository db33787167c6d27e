"""Attention: from which tokens of the source each token of the target was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from recurra.results import Result
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Attention(Result):
    """`weights[t, s]`: how much of the source token s was read for the target token t; every row sums to 1.

    ```python
    Attention(weights, list("4 May"), list("05-04")).plot("map.svg")
    ```
    """

    weights: Float[Tensor, "T S"]
    source: Sequence[str]
    target: Sequence[str]

    def __str__(self) -> str:
        most = self.weights.argmax(1).tolist()
        pairs = (f"{token!r} ← {self.source[k]!r}" for token, k in zip(self.target, most, strict=True))
        return ", ".join(pairs)

    def arrays(self) -> dict[str, Tensor]:
        return {"weights": self.weights}
