"""Loops over time as a PyTorch user writes them by hand: one product for the inputs of all steps, then step by step.

Each takes inputs `[B, T, D]` and a layer's parameters, with the gates in the order of its cell; each returns `[B, T, H]`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, sigmoid, tanh
from torch.nn.functional import linear

from recurra.cells.catalogue import CATALOGUE
from recurra.cells.notation import Cell
from recurra.types import Float


def lstm(x: Float[Tensor, "B T D"], W: Tensor, b: Tensor, U: Tensor) -> Float[Tensor, "B T H"]:
    h = c = x.new_zeros(len(x), U.shape[1])
    outputs = []
    for drive in linear(x, W, b).unbind(1):
        i, f, o, g = (drive + linear(h, U)).chunk(4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        outputs.append(h)
    return torch.stack(outputs, 1)


def gru(x: Float[Tensor, "B T D"], W: Tensor, b: Tensor, U: Tensor) -> Float[Tensor, "B T H"]:
    H = U.shape[1]
    h, gates, candidate = x.new_zeros(len(x), H), U[: 2 * H], U[2 * H :]
    outputs = []
    for drive in linear(x, W, b).unbind(1):
        zr, n = drive.split([2 * H, H], -1)
        z, r = sigmoid(zr + linear(h, gates)).chunk(2, -1)
        n = tanh(n + linear(r * h, candidate))
        h = (1 - z) * h + z * n
        outputs.append(h)
    return torch.stack(outputs, 1)


def gru_after(x: Float[Tensor, "B T D"], W: Tensor, b: Tensor, U: Tensor, b_n: Tensor) -> Float[Tensor, "B T H"]:
    H = U.shape[1]
    h = x.new_zeros(len(x), H)
    outputs = []
    for drive in linear(x, W, b).unbind(1):
        rz, n = drive.split([2 * H, H], -1)
        u_rz, u_n = linear(h, U).split([2 * H, H], -1)
        r, z = sigmoid(rz + u_rz).chunk(2, -1)
        n = tanh(n + r * (u_n + b_n))
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs, 1)


def elman(x: Float[Tensor, "B T D"], W: Tensor, b: Tensor, U: Tensor) -> Float[Tensor, "B T H"]:
    h = x.new_zeros(len(x), U.shape[1])
    outputs = []
    for drive in linear(x, W, b).unbind(1):
        h = tanh(drive + linear(h, U))
        outputs.append(h)
    return torch.stack(outputs, 1)


LOOPS: dict[str, Callable[..., Tensor]] = {"lstm": lstm, "gru": gru, "gru_after": gru_after, "elman": elman}


def find_loop(cell: Cell) -> Callable[..., Tensor] | None:
    """The loop of a cell of the catalogue, where there is one; none for `elman(activation=relu)` or a cell of your own."""
    return LOOPS.get(cell.name) if CATALOGUE.get(cell.name) is cell else None
