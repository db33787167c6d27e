"""Parametrizations of some rows of a packed weight: what one gate has of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OfRows(nn.Module):
    """A parametrization of some rows; the others stay as they are."""

    def __init__(self, rows: slice, by: nn.Module):
        super().__init__()
        self.start, self.stop, self.by = rows.start, rows.stop, by

    def forward(self, packed: Tensor) -> Tensor:
        inside = self.by(packed[self.start : self.stop])
        return torch.cat([packed[: self.start], inside, packed[self.stop :]])

    def extra_repr(self) -> str:
        return f"rows {self.start} to {self.stop}"


class Held(nn.Module):
    """Values that stay as they are, whatever the optimiser does to the weight that they stand in."""

    def __init__(self, values: Tensor):
        super().__init__()
        self.register_buffer("values", values.detach().clone())
        self.values: Tensor

    def forward(self, free: Tensor) -> Tensor:
        return self.values
