"""Weights as `const` arrays of C: in float32, or matrices in 8 bits with a scale for each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from recurra.engines.protocol import Weights
from recurra.errors import OptionError
from recurra.export.c_language import literal
from recurra.export.network import Network, Value
from recurra.layers.direction import Direction

FEWEST = 8
"""Rows of fewer numbers stay float32: their scales would take more than 8 bits save."""
FEW_ROWS = 8
"""A matrix of fewer rows lies row by row: there are too few neighbours for a vector down a column."""


@dataclass(frozen=True)
class Array:
    """One constant array."""

    type: str
    name: str
    values: np.ndarray

    @property
    def bytes(self) -> int:
        return int(self.values.nbytes)

    def lines(self) -> list[str]:
        words = [literal(v) for v in self.values] if self.type == "float" else [str(v) for v in self.values]
        lines, line = [], "   "
        for word in words:
            if len(line) + len(word) > 116:
                lines.append(line)
                line = "   "
            line += f" {word},"
        return [f"static const {self.type} {self.name}[{len(words)}] = {{", *lines, line.rstrip(","), "};"]


@dataclass(frozen=True)
class Matrix:
    """A matrix that lies in one array, or in two: its rows' scales are the second."""

    array: str
    scale: str | None
    rows: int
    columns: int
    by_rows: bool

    def product(self, bias: str | None, v: str, out: str) -> str:
        name = f"real_multiply{'_rows' if self.by_rows else ''}{'_int8' if self.scale else ''}"
        scale = f"{self.scale}, " if self.scale else ""
        return f"{name}({self.array}, {scale}{bias or '0'}, {v}, {out}, {self.rows}, {self.columns});"

    def row(self, token: str, out: str) -> str:
        if self.scale:
            return f"real_row_int8({self.array}, {self.scale}, {token}, {out}, {self.columns}, {self.rows});"
        return f"real_row({self.array}, {token}, {out}, {self.columns}, {self.rows});"


class Numbers:
    """The arrays of a source; what is the same twice is kept once."""

    def __init__(self, int8: bool):
        self.int8 = int8
        self._known: dict[tuple[str, bytes], Array] = {}

    @property
    def arrays(self) -> list[Array]:
        return list(self._known.values())

    @property
    def bytes(self) -> int:
        return sum(array.bytes for array in self.arrays)

    def put(self, name: str, values: Tensor) -> str:
        """The name of an array with these values."""
        flat = values.detach().cpu().reshape(-1)
        if flat.dtype != torch.int8:
            flat = flat.float()
            if not bool(torch.isfinite(flat).all()):
                raise OptionError(
                    f"export to C: {name} holds NaN or ±inf in float32. Train the network until its weights are finite."
                )
        kind = "int8_t" if flat.dtype == torch.int8 else "float"
        key, k, taken = (kind, flat.numpy().tobytes()), 1, {array.name for array in self.arrays}
        unique = name
        while unique in taken:
            k += 1
            unique = f"{name}_{k}"
        return self._known.setdefault(key, Array(kind, unique, flat.numpy())).name

    def matrix(self, name: str, weight: Tensor, *, table: bool = False) -> Matrix:
        """A matrix to multiply by, or a `table` of which rows are read."""
        rows, columns = weight.shape
        by_rows = table or rows < FEW_ROWS <= columns
        scale = None
        if is_small(weight, self.int8):
            weight, scales = quantise(weight)
            scale = self.put(f"{name}_scale", scales)
        return Matrix(self.put(name, weight if by_rows else weight.T), scale, rows, columns, by_rows)


def is_small(weight: Tensor, int8: bool) -> bool:
    """Whether a matrix is kept in 8 bits."""
    return int8 and weight.shape[1] >= FEWEST


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from −127 to 127, and what one of them is worth in each row."""
    scale = weight.detach().float().abs().amax(1) / 127
    return torch.round(weight.detach().float() / scale.clamp_min(1e-30)[:, None]).to(torch.int8), scale


def as_stored(weight: Tensor, int8: bool) -> Tensor:
    """The numbers that the C code computes with, in the dtype of the weight."""
    if not is_small(weight, int8):
        return weight.detach()
    whole, scale = quantise(weight)
    return (whole.float() * scale[:, None]).to(weight.dtype)


class Rounded(Direction):
    """A direction with the weights of another, in the numbers that 8 bits hold."""

    def __init__(self, direction: Direction):
        nn.Module.__init__(self)
        self.__dict__.update(direction.__dict__)

    def weights(self, T: int, B: int) -> Weights:
        exact = super().weights(T, B)
        return replace(exact, W=as_stored(exact.W, True), U=as_stored(exact.U, True))


def rounded(network: Network) -> Network:
    """The network that 8 bits leave of a network."""
    made: dict[Value, Value] = {}
    for value in network.values:
        weights = dict(value.weights)
        for name in ("table", "weight"):
            if name in weights and not is_diagonal(weights[name]):
                weights[name] = as_stored(weights[name], True)
        direction = None if value.direction is None else Rounded(value.direction)
        arguments = tuple(made[each] for each in value.arguments)
        made[value] = replace(value, arguments=arguments, weights=weights, direction=direction)
    return Network({name: made[value] for name, value in network.outputs.items()})


def is_diagonal(weight: Tensor) -> bool:
    """Whether a matrix is no more than a factor for each number, as standardising is; it is then kept as those."""
    square = weight.shape[0] == weight.shape[1]
    return square and bool((weight == torch.diag(torch.diagonal(weight))).all())
