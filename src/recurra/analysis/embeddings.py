"""Vectors of tokens looked at: which lie near each other, and all of them on a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from
from recurra.results import Result, Table
from recurra.types import Float, Int

NEAR = 8
"""How many neighbours are shown unless more are asked for."""


@dataclass(frozen=True, eq=False)
class Embeddings(Result):
    """The vectors of tokens.

    - `names`, `vectors`: by token. `counts`: how often training data had each, where that is known.
    - `similarities`: the cosine of every two. `map`: the two directions in which they differ most (principal components), and
      `shown`: which share of all differences the two are.
    """

    names: tuple[str, ...]
    vectors: Float[Tensor, "V D"]
    similarities: Float[Tensor, "V V"]
    map: Float[Tensor, "V 2"]
    shown: float
    counts: Int[Tensor, " V"] | None = None

    def neighbours(self, name: str, count: int = NEAR) -> list[tuple[str, float]]:
        """The tokens nearest to one by cosine, nearest first."""
        k = self.names.index(choose_from("token", name, self.names))
        order = self.similarities[k].argsort(descending=True, stable=True).tolist()
        return [(self.names[j], float(self.similarities[k, j])) for j in order if j != k][:count]

    def most_frequent(self, count: int) -> list[int]:
        """The tokens that training data had most often; the first ones, where that is not known."""
        if self.counts is None:
            return list(range(min(count, len(self.names))))
        return self.counts.argsort(descending=True, stable=True)[:count].tolist()

    def table(self) -> Table:
        rows = [
            (repr(self.names[k]), "  ".join(f"{name!r} {near:.2f}" for name, near in self.neighbours(self.names[k], 5)))
            for k in self.most_frequent(20)
        ]
        return Table(("token", "nearest by cosine"), rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "map": self.map.tolist(),
            "shown": self.shown,
            "nearest": {
                name: dict(self.neighbours(name, 5)) for name in (self.names[k] for k in self.most_frequent(100))
            },
        }

    def arrays(self) -> dict[str, Tensor]:
        return {"vectors": self.vectors, "map": self.map}


def look_at_embeddings(
    vectors: Float[Tensor, "V D"], names: Sequence[str], counts: Int[Tensor, " V"] | None = None
) -> Embeddings:
    """Which vectors lie near each other, and a map of all.

    ```python
    found = rc.analysis.look_at_embeddings(torch.randn(5, 3), ["a", "b", "c", "d", "e"])
    found.neighbours("a", 2)
    ```
    """
    values = vectors.detach().double().cpu()
    if values.ndim != 2 or len(values) != len(names) or len(names) < 2:
        raise OptionError(
            f"look_at_embeddings: there must be a vector for each of at least 2 names; got {list(values.shape)} for {len(names)}."
        )
    unit = values / values.norm(dim=1, keepdim=True).clamp(min=1e-12)
    centred = values - values.mean(0)
    _, sizes, axes = torch.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T
    flat = torch.cat([flat, flat.new_zeros(len(flat), 2 - flat.shape[1])], dim=1)
    shown = float(sizes[:2].square().sum() / sizes.square().sum().clamp(min=1e-30))
    return Embeddings(tuple(names), values, unit @ unit.T, flat, shown, counts)
