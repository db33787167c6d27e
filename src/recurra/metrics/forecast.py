"""A forecast: the known past of a series, its predicted future, and what came where that is known."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from recurra.results import Result, Table
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Forecast(Result):
    """How a series goes on: the known values of its columns, and predictions of the steps after them.

    - `low`, `high`: the bounds of an interval that holds `level` of the probability; `None` for a point forecast. `true`: what
      came, where that is known.
    - `times`: those of the steps to come, if rows have times.

    ```python
    rc.metrics.Forecast(("load",), torch.zeros(20, 1), torch.ones(5, 1)).plot()
    ```
    """

    names: tuple[str, ...]
    known: Float[Tensor, "T C"]
    predictions: Float[Tensor, "K C"]
    low: Float[Tensor, "K C"] | None = None
    high: Float[Tensor, "K C"] | None = None
    level: float | None = None
    true: Float[Tensor, "K C"] | None = None
    times: tuple[str, ...] = ()

    def _columns(self) -> list[tuple[str, list[Any]]]:
        """With their names: the times of the steps, and of each column the predictions and the bounds around them."""
        found: list[tuple[str, list[Any]]] = [("time", list(self.times))] if self.times else []
        for k, name in enumerate(self.names):
            found.append((name, self.predictions[:, k].tolist()))
            if self.low is not None and self.high is not None and self.level is not None:
                found.append((f"{name} {(1 - self.level) / 2:.3g}", self.low[:, k].tolist()))
                found.append((f"{name} {(1 + self.level) / 2:.3g}", self.high[:, k].tolist()))
        return found

    def table(self) -> Table:
        names, columns = zip(*self._columns(), strict=True)
        shown = [[f"{each:.6g}" if isinstance(each, float) else str(each) for each in column] for column in columns]
        return Table(names, list(zip(*shown, strict=True)))

    def to_csv(self) -> str:
        names, columns = zip(*self._columns(), strict=True)
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([names, *zip(*columns, strict=True)])
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"columns": list(self.names), "values": self.predictions.tolist()}
        if self.low is not None and self.high is not None:
            found |= {"low": self.low.tolist(), "high": self.high.tolist(), "interval": self.level}
        return found | ({"times": list(self.times)} if self.times else {})

    def arrays(self) -> dict[str, Tensor]:
        every = {name: getattr(self, name) for name in ("known", "predictions", "low", "high", "true")}
        return {name: values for name, values in every.items() if values is not None}
