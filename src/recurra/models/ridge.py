"""Linear regression with a penalty, from data that comes in chunks: memory does not grow with its length."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.types import Float


class Ridge:
    """W = argmin ‖X W − Y‖² + penalty ‖W‖², in float64.

    What is kept of all rows so far is the triangle R of a QR factorisation of [X Y]. It holds what the sums XᵀX, XᵀY
    and YᵀY, which are its products RᵀR, in as much memory; but these square every singular value, so that what is smaller than
    1e-8 of the largest is lost in them, while R keeps it down to 1e-16. The features of a reservoir span more than that.

    ```python
    ridge = Ridge(inputs=3, outputs=1)
    for X, Y in chunks:
        ridge.add(X, Y)
    W = ridge.solve(penalty=1e-6)      # [3, 1]
    ```
    """

    def __init__(self, inputs: int, outputs: int):
        self.inputs, self.rows = inputs, 0
        self.R = torch.zeros(inputs + outputs, inputs + outputs, dtype=torch.float64)

    def add(self, X: Float[Tensor, "N F"], Y: Float[Tensor, "N O"]) -> None:
        """Learn from more rows."""
        more = torch.cat([X, Y], dim=1).to(self.R)
        self.R = _triangle(torch.cat([self.R, more]))
        self.rows += len(more)

    def solve(self, penalty: float) -> Float[Tensor, "F O"]:
        """The weights for all rows so far."""
        if not penalty > 0:
            raise OptionError(f"the penalty of a ridge regression must be positive; got {penalty}.")
        F = self.inputs
        below = torch.zeros(F, self.R.shape[1], dtype=self.R.dtype)
        below.diagonal().fill_(math.sqrt(penalty))
        whole = _triangle(torch.cat([self.R, below]))
        W: Tensor = torch.linalg.solve_triangular(whole[:F, :F], whole[:F, F:], upper=True)
        return W

    def error(self, W: Float[Tensor, "F O"]) -> Float[Tensor, " O"]:
        """The mean squared error of weights over all rows so far, of each output."""
        left = self.R[:, : self.inputs] @ W - self.R[:, self.inputs :]
        return left.square().sum(0) / max(1, self.rows)


def _triangle(rows: Tensor) -> Tensor:
    """R of a QR factorisation; Q is never made."""
    R: Tensor = torch.linalg.qr(rows, mode="r").R
    return R
