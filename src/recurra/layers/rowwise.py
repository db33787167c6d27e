"""Linear maps whose result for a row does not depend on which rows stand beside it, bit for bit.

A matrix product of BLAS chooses its order of summation by the number of rows, so that the same row gives other last digits alone
than among others. The generated kernels sum each row by itself, in one order. A linear map is a cell without recurrence, and
rows are its steps.
"""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from recurra.cells.notation import Cell, cell
from recurra.cells.operations import tanh
from recurra.engines.choose import ENGINES
from recurra.engines.fused.streaming import Stream
from recurra.engines.protocol import Weights
from recurra.layers.deep import DeepLinear
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Shape


@cell
def affine(x, U, y):  # type: ignore[no-untyped-def]
    """A linear map: no state is read."""
    return x.y


@cell
def squashed(x, U, y):  # type: ignore[no-untyped-def]
    """A linear map and tanh: no state is read."""
    return tanh(x.y)


class Rowwise(nn.Module):
    """The map of an `nn.Linear`, and `tanh` after it if the cell says so. It copies the weights as they are now.

    Only one thread may call it at a time: its buffers are its own, allocated once.
    """

    def __init__(self, linear: nn.Linear, by: Cell = affine):
        super().__init__()
        self.input_size, self.output_size = linear.in_features, linear.out_features
        W = linear.weight.detach().clone()
        b = W.new_zeros(self.output_size) if linear.bias is None else linear.bias.detach().clone()
        self._dtype = W.dtype
        self._stream = Stream(by, Weights(W, b, W.new_empty(0, self.output_size)), 1)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Of each row by itself."""
        x = x.detach().to(self._dtype).contiguous()
        out = x.new_empty(*x.shape[:-1], self.output_size)
        self._stream.run(x.data_ptr(), out.data_ptr(), x.numel() // self.input_size)
        return out


def runs_by_rows(layer: Recurrent) -> bool:
    """Whether the generated CPU kernels can run these layers: they give each batch row the same bits whatever stands beside it,
    and a sequence the same bits whole or in chunks."""
    fused = ENGINES["fused"]
    return all(
        one.W.device.type == "cpu"
        and fused.supports(one.cell, one.W.device, one.W.dtype, Shape(1, 1, one.input_size, one.hidden_size))
        for directions in layer.stack
        for one in directions
    )


def by_rows(model: nn.Module) -> nn.Module:
    """A copy of a model in which every linear map and every recurrent layer is computed row by row; see `runs_by_rows`."""
    with torch.no_grad():
        return _replaced(copy.deepcopy(model).eval())


def _replaced(module: nn.Module) -> nn.Module:
    if isinstance(module, Recurrent):
        module.engine = "fused"
        return module
    if isinstance(module, DeepLinear):
        return nn.Sequential(_replaced(module.before), Rowwise(module))
    if type(module) is nn.Linear:
        return Rowwise(module)
    parts = list(module.children())
    if type(module) is nn.Sequential and [type(part) for part in parts] == [nn.Linear, nn.Tanh]:
        return Rowwise(cast(nn.Linear, parts[0]), squashed)
    for name, part in list(module.named_children()):
        setattr(module, name, _replaced(part))
    return module
