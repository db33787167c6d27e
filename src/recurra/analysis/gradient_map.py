"""Gradients from every step to every earlier one: the norm of ∂s_t/∂s_{t−k} for all pairs (t, k) of one sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.gradients import Verdict, slope
from recurra.analysis.jacobians import StepMap, step_map
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.results import Result
from recurra.types import Float

MOST_NUMBERS = 2**24
"""Of the products of Jacobians that are held at a time: 128 MB."""


@dataclass(frozen=True, eq=False)
class GradientMap(Result):
    """How much each earlier state moves each later one.

    - `logs`: at `[t − 1, k]`, log ‖∂s_t/∂s_{t−k}‖₂ (the largest singular value), for t = 1 … T and k = 0 … t; NaN where k > t,
      and −inf where nothing is left. `states`: s_0 … s_T along the sequence.
    """

    logs: Float[Tensor, "T K"]
    states: Float[Tensor, "T1 S"]

    @property
    def steps(self) -> int:
        return len(self.logs)

    @property
    def verdict(self) -> Verdict:
        """Of the gradient that starts at the last step."""
        return Verdict(slope(self.logs[-1]), self.steps)

    def __str__(self) -> str:
        return f"over {self.steps} steps the gradient {self.verdict}"

    def to_json(self) -> dict[str, Any]:
        # JSON has neither −inf nor NaN: a gradient that is exactly zero is told apart from a pair that does not exist
        rows = [
            [value if math.isfinite(value) else None for value in row[: t + 2]]
            for t, row in enumerate(self.logs.tolist())
        ]
        return {"steps": self.steps, "verdict": str(self.verdict), "slope": self.verdict.slope, "log_norms": rows}

    def arrays(self) -> dict[str, Tensor]:
        return {"logs": self.logs, "states": self.states}


@torch.no_grad()
def gradient_map(network: Recurrent | StepMap, x: Float[Tensor, "T D"]) -> GradientMap:
    """The norms of the products J_t ⋯ J_{t−k+1} for all t and k, along a sequence from the initial state.

    - `network`: recurrent layers, or their `StepMap`. `x`: the inputs.

    ```python
    found = rc.analysis.gradient_map(rc.Recurrent("elman", 2, 8), torch.randn(30, 2))
    found.logs[29, 10]                                              # log ‖∂s_30/∂s_20‖
    found.plot()
    ```
    """
    F = step_map(network)
    T, S = len(x), F.size
    if T < 1:
        raise OptionError("a map of gradients needs a sequence of at least one input; got none.")
    if T * S * S > MOST_NUMBERS:
        raise OptionError(f"a map of {T} steps of a state of {S} numbers is too large. Take fewer steps or units.")
    x = x.detach().to(F.dtype)
    s, states, jacobians = F.start[None], [F.start], []
    for t in range(T):
        step = F.step(s, x[t : t + 1])
        s = step.next
        states.append(s[0])
        jacobians.append(step.state[0])
    J = torch.stack(jacobians)
    logs = torch.full((T, T + 1), math.nan, dtype=F.dtype)
    logs[:, 0] = 0
    product = torch.eye(S, dtype=F.dtype).expand(T, S, S)
    scale = torch.zeros(T, dtype=F.dtype)
    for k in range(1, T + 1):  # all t at once: row i of `product` ends at step k + i
        product = product[1 if k > 1 else 0 :] @ J[: T - k + 1]
        scale = scale[1 if k > 1 else 0 :]
        size = product.abs().amax((1, 2))
        product = product / torch.where(size > 0, size, torch.ones_like(size))[:, None, None]
        scale = scale + size.log()
        largest = torch.linalg.eigvalsh(product.mT @ product)[:, -1].clamp(min=0)
        logs[k - 1 :, k] = scale + largest.log() / 2
    logs[torch.isnan(logs) & _exists(T)] = -math.inf  # −inf − inf: exactly zero before
    return GradientMap(logs, torch.stack(states))


def _exists(T: int) -> Tensor:
    return torch.arange(T + 1)[None] <= torch.arange(1, T + 1)[:, None]
