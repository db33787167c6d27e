"""Buffers that never leave the engine, lent again and again: fresh pages from the system cost as much as small sequences."""

from __future__ import annotations

import torch
from torch import Tensor

KEPT_BYTES = 256 * 2**20
"""How much memory may lie idle between runs."""

_idle: list[Tensor] = []


class Buffer:
    """A flat piece of memory of at least `size` numbers; goes back to be lent again when nothing refers to it."""

    def __init__(self, size: int, dtype: torch.dtype):
        fitting = [k for k, each in enumerate(_idle) if each.dtype == dtype and size <= each.numel() <= 2 * size + 1024]
        self._memory = _idle.pop(fitting[-1]) if fitting else torch.empty(size, dtype=dtype)
        self.data = self._memory[:size]

    def __del__(self) -> None:
        _idle.append(self._memory)
        while len(_idle) > 64 or sum(each.nbytes for each in _idle) > KEPT_BYTES:
            _idle.pop(0)
