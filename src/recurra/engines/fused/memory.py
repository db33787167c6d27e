"""Buffers that never leave the engine, lent again and again: fresh pages from the system cost as much as small sequences."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

KEPT_BYTES = 256 * 2**20
"""How much memory may lie idle between runs."""

_idle: dict[int, Tensor] = {}
"""By identity. Only single operations on the dictionary change it: other threads, and buffers that the collector frees
at any moment, lend and return at the same time."""


class Buffer:
    """A flat piece of memory of at least `size` numbers; goes back to be lent again when nothing refers to it."""

    def __init__(self, size: int, dtype: torch.dtype):
        self.size = size
        self._memory = _take(size, dtype)
        self.address = self._memory.data_ptr()

    @property
    def data(self) -> Tensor:
        return self._memory[: self.size]

    def lend(self) -> Tensor:
        """The buffer as a tensor that owns it."""
        owner = (ctypes.c_char * (self.size * self._memory.itemsize)).from_address(self.address)
        owner.buffer = self  # type: ignore[attr-defined]
        return torch.frombuffer(owner, dtype=self._memory.dtype)

    def __del__(self) -> None:
        if not hasattr(self, "_memory"):  # there was none to be had
            return
        _idle[id(self._memory)] = self._memory
        if len(_idle) > 12 or self._memory.nbytes > KEPT_BYTES // 12:
            _trim()


def _trim() -> None:
    """Let go of the oldest ones until what lies idle is few pieces and little memory."""
    kept = list(_idle.items())
    spare, count = sum(each.nbytes for _, each in kept) - KEPT_BYTES, len(kept) - 12
    for key, each in kept:
        if spare <= 0 and count <= 0:
            break
        _idle.pop(key, None)
        spare, count = spare - each.nbytes, count - 1


def _take(size: int, dtype: torch.dtype) -> Tensor:
    for key, each in reversed(tuple(_idle.items())):
        if each.dtype == dtype and size <= each.numel() <= 2 * size + 1024:
            found = _idle.pop(key, None)
            if found is each:
                return found
    return torch.empty(size, dtype=dtype, device="cpu")
