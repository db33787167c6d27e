"""Which class was taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.results import Result, Table


@dataclass(frozen=True)
class Confusion(Result):
    """The confusion matrix: `counts[i][j]` examples of class i were predicted as class j.

    ```python
    print(rc.metrics.Confusion(("cat", "dog"), ((8, 2), (1, 9))))
    ```
    """

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]

    @property
    def right(self) -> int:
        return sum(row[k] for k, row in enumerate(self.counts))

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts))

    def table(self) -> Table:
        rows = [(name, *map(str, row)) for name, row in zip(self.labels, self.counts, strict=True)]
        return Table(("true \\ predicted", *self.labels), rows, f"{self.right} of {self.total} right")

    def to_json(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}

    def arrays(self) -> dict[str, Tensor]:
        return {"counts": torch.tensor(self.counts)}
