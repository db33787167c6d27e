"""Tables of order k beside a network: how many parameters each has, and how well it predicts.

A table of order k has a distribution for each of V^k contexts, V^k (V − 1) free numbers: O(V^k). The network's number does not
depend on how far back it reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from recurra.results import Result, Table


@dataclass(frozen=True)
class OrderRow:
    """One model: its order (`None`: a network), the free numbers of its full table or of the network, how many contexts the
    training text had, and nats per token."""

    name: str
    order: int | None
    parameters: int
    contexts: int | None
    nats: float

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.nats, 700))


@dataclass(frozen=True)
class OrderComparison(Result):
    """`rows`: tables of each order, then the network. `vocabulary`: V. `tokens`: how many were predicted."""

    vocabulary: int
    tokens: int
    rows: tuple[OrderRow, ...]

    def table(self) -> Table:
        rows = [
            (
                row.name,
                f"{row.parameters:.3g}" if row.parameters > 10**9 else f"{row.parameters:,}",
                "" if row.contexts is None else f"{row.contexts:,}",
                f"{row.nats:.4f}",
                f"{row.perplexity:.3f}",
            )
            for row in self.rows
        ]
        title = f"{self.tokens:,} tokens, vocabulary {self.vocabulary}"
        return Table(("model", "parameters", "contexts seen", "nats", "perplexity"), rows, title)

    def to_json(self) -> dict[str, Any]:
        rows = [{**vars(row), "perplexity": row.perplexity} for row in self.rows]
        return {"vocabulary": self.vocabulary, "tokens": self.tokens, "rows": rows}
