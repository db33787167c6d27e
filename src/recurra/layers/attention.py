"""Attention: for each query, a mean of values, weighted by how well their keys answer it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recurra.errors import choose_from
from recurra.types import Float, Int

KINDS = ("additive", "dot")


class Attended(NamedTuple):
    """The mean value that each query finds, and the weights that it is made with."""

    values: Float[Tensor, "B T C"]
    weights: Float[Tensor, "B T S"]


class Attention(nn.Module):
    """Weights softmax_s e(q_t, k_s) over the values, with values past a sequence's end left out.

    - `kind`: `additive`, e = v · tanh(W q + U k) (Bahdanau et al. 2015), or `dot`, e = q · U k / √H (Luong et al. 2015; the
      root as in Vaswani et al. 2017).
    - `query_size`, `value_size`: H and C.

    Keys are a linear map of the values. `keys` computes them once, for all queries that follow.

    ```python
    attention = Attention("additive", query_size=16, value_size=32)
    values = torch.randn(4, 20, 32)
    found = attention(torch.randn(4, 7, 16), attention.keys(values), values, lengths=torch.tensor([20, 7, 13, 1]))
    found.values.shape, found.weights.shape      # [4, 7, 32], [4, 7, 20]
    ```
    """

    def __init__(self, kind: str, query_size: int, value_size: int):
        super().__init__()
        self.kind = choose_from("attention", kind, KINDS)
        self.key = nn.Linear(value_size, query_size, bias=False)
        if kind == "additive":
            self.query = nn.Linear(query_size, query_size)
            self.score = nn.Linear(query_size, 1, bias=False)

    def keys(self, values: Float[Tensor, "B S C"]) -> Float[Tensor, "B S H"]:
        made: Tensor = self.key(values)
        return made

    def forward(
        self,
        queries: Float[Tensor, "B T H"],
        keys: Float[Tensor, "B S H"],
        values: Float[Tensor, "B S C"],
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Attended:
        if self.kind == "additive":
            energies = self.score(torch.tanh(self.query(queries)[:, :, None] + keys[:, None]))[..., 0]
        else:
            energies = queries @ keys.mT / math.sqrt(keys.shape[-1])
        if lengths is not None:
            outside = torch.arange(values.shape[1], device=values.device) >= lengths[:, None]
            energies = energies.masked_fill(outside[:, None], -math.inf)
        weights = energies.softmax(-1)
        return Attended(weights.to(values.dtype) @ values, weights)

    def extra_repr(self) -> str:
        return self.kind
