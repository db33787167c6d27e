"""Loops over time as a PyTorch user writes them by hand: one product for the inputs of all steps, then step by step.

A step takes its inputs' product, a recurrent matrix for each argument that is multiplied, what else the cell learns, and
the state, the output first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, sigmoid, tanh
from torch.nn.functional import linear

from recurra.cells.catalogue import CATALOGUE
from recurra.cells.notation import Cell
from recurra.types import Float


def lstm(drive: Tensor, U: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, o, g = (drive + linear(h, U)).chunk(4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def gru(drive: Tensor, U_zr: Tensor, U_n: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    x_zr, x_n = drive.split([len(U_zr), len(U_n)], -1)
    z, r = sigmoid(x_zr + linear(h, U_zr)).chunk(2, -1)
    n = tanh(x_n + linear(r * h, U_n))
    return ((1 - z) * h + z * n,)


def gru_after(drive: Tensor, U: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    x_r, x_z, x_n = drive.chunk(3, -1)
    u_r, u_z, u_n = linear(h, U).chunk(3, -1)
    r, z = sigmoid(x_r + u_r), sigmoid(x_z + u_z)
    n = tanh(x_n + r * (u_n + b))
    return ((1 - z) * n + z * h,)


def elman(drive: Tensor, U: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (tanh(drive + linear(h, U)),)


STEPS: dict[str, Callable[..., tuple[Tensor, ...]]] = {each.__name__: each for each in (lstm, gru, gru_after, elman)}


def has_loop(cell: Cell) -> bool:
    """Whether the cell is one of the catalogue with a loop by hand; not `elman(activation=relu)`, nor a cell of your own."""
    return cell.name in STEPS and CATALOGUE[cell.name] is cell


def run_loop(
    cell: Cell, x: Float[Tensor, "B T D"], W: Tensor, b: Tensor, U: Tensor, *units: Tensor
) -> Float[Tensor, "B T H"]:
    """The outputs of a layer with these parameters; gates are in the order of the cell."""
    step, H = STEPS[cell.name], U.shape[1]
    weights = U.split([len(group.names) * H for stage in cell.graph.stages for group in stage])
    state = (x.new_zeros(len(x), H),) * len(cell.graph.states)
    outputs = []
    for drive in linear(x, W, b).unbind(1):
        state = step(drive, *weights, *units, *state)
        outputs.append(state[0])
    return torch.stack(outputs, 1)
