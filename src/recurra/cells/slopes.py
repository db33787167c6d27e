"""How the values of one step depend on the states and drives that they are made of: slopes, propagated forward.

The derivatives are those of the operations' table. Nothing is multiplied out before a matrix is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from recurra.cells.graph import NORM_EPSILON, Node
from recurra.cells.operations import OPERATIONS
from recurra.types import Float

_CHOOSING = ("where", "relu", "clamp", "minimum", "maximum")
"""Operations whose partial derivatives choose: what is not chosen counts nothing, even where it is infinite."""


def _times(factor: Tensor | float, value: Tensor | float, choosing: bool) -> Tensor | float:
    """Where the factor chooses, what it does not choose is zero, even if it is infinite."""
    if choosing and isinstance(factor, Tensor):
        return torch.where(factor == 0, torch.zeros_like(factor), factor * value)
    return factor * value


@dataclass
class Slope:
    """∂value/∂leaf for one value and one leaf, each `[N, H]`, as a sum of three kinds of matrices.

    - `diagonal`: the value's unit k depends on the leaf's unit k. A number stands for that number in every place.
    - `rows`: by matrix, the factor of each row: diag(rows[name]) U_name. Nothing is multiplied out until the end.
    - `dense`: anything else, `[N, H, H]`.
    """

    diagonal: Tensor | float = 0.0
    rows: dict[str, Tensor | float] = field(default_factory=dict)
    dense: Tensor | None = None

    def scaled(self, factor: Tensor | float, *, choosing: bool = False) -> Slope:
        """diag(factor) times this."""
        dense = None
        if self.dense is not None:
            wide = torch.as_tensor(factor, dtype=self.dense.dtype, device=self.dense.device)[..., None]
            dense = torch.where(wide == 0, 0, wide * self.dense) if choosing else wide * self.dense
        diagonal = (
            self.diagonal
            if isinstance(self.diagonal, float) and self.diagonal == 0
            else _times(factor, self.diagonal, choosing)
        )
        return Slope(diagonal, {name: _times(factor, rows, choosing) for name, rows in self.rows.items()}, dense)

    def plus(self, other: Slope) -> Slope:
        rows = dict(self.rows)
        for name, factor in other.rows.items():
            rows[name] = rows[name] + factor if name in rows else factor
        parts = [dense for dense in (self.dense, other.dense) if dense is not None]
        return Slope(self.diagonal + other.diagonal, rows, sum(parts[1:], parts[0]) if parts else None)

    def multiplied(self, name: str, matrices: Mapping[str, Tensor]) -> Slope:
        """U_name times this."""
        U = matrices[name]
        made = Slope()
        if isinstance(self.diagonal, Tensor):
            made.dense = U * self.diagonal[..., None, :]
        elif self.diagonal != 0:
            made.rows[name] = self.diagonal
        rest = self.rows_as_dense(matrices)
        if rest is not None:
            made.dense = U @ rest if made.dense is None else made.dense + U @ rest
        return made

    def rows_as_dense(self, matrices: Mapping[str, Tensor]) -> Tensor | None:
        """All but the diagonal, multiplied out."""
        total = self.dense
        for name, factor in self.rows.items():
            part = (factor[..., None] if isinstance(factor, Tensor) else factor) * matrices[name]
            total = part if total is None else total + part
        return total

    def normed(self, middle: Tensor, spread: Tensor, gain: Tensor, matrices: Mapping[str, Tensor]) -> Slope:
        """∂ gain·u/∂v times this, with u = (v − mean v)/σ: gain/σ · (I − 1/H − u uᵀ/H)."""
        u, H = middle / spread, middle.shape[-1]
        inner = torch.eye(H, dtype=u.dtype, device=u.device) - (1 + u[:, :, None] * u[:, None, :]) / H
        return Slope(dense=(gain / spread)[..., None] * inner @ self.matrix(matrices, u))

    def matrix(self, matrices: Mapping[str, Tensor], like: Float[Tensor, "N H"]) -> Float[Tensor, "N H H"]:
        N, H = like.shape
        total = self.rows_as_dense(matrices)
        made = like.new_zeros(N, H, H) if total is None else total.expand(N, H, H).clone()
        made.diagonal(dim1=-2, dim2=-1).add_(self.diagonal)
        return made


@dataclass
class OwnSlope:
    """An approximation of `Slope` by what each unit does to itself: the diagonals of matrices stand for the matrices."""

    value: Tensor | float = 0.0

    def scaled(self, factor: Tensor | float, *, choosing: bool = False) -> OwnSlope:
        return OwnSlope(_times(factor, self.value, choosing))

    def plus(self, other: OwnSlope) -> OwnSlope:
        return OwnSlope(self.value + other.value)

    def multiplied(self, name: str, matrices: Mapping[str, Tensor]) -> OwnSlope:
        return OwnSlope(matrices[name].diagonal() * self.value)

    def normed(self, middle: Tensor, spread: Tensor, gain: Tensor, matrices: Mapping[str, Tensor]) -> OwnSlope:
        H = middle.shape[-1]
        return OwnSlope(gain / spread * (1 - (1 + (middle / spread).square()) / H) * self.value)


Kind = TypeVar("Kind", Slope, OwnSlope)


def slopes(
    kind: type[Kind],
    nodes: Iterable[Node],
    values: Mapping[Node, Tensor | float],
    matrices: Mapping[str, Tensor],
    units: Mapping[str, Tensor],
    like: Float[Tensor, "N H"],
) -> dict[Node, dict[Node, Kind]]:
    """For every one of these values, which come after their arguments, its slope with respect to each state and drive."""
    found: dict[Node, dict[Node, Kind]] = {}
    for node in nodes:
        total: dict[Node, Kind] = {}
        if node.kind in ("state", "drive"):
            total[node] = kind(1.0)
        elif node.kind == "product":
            total = {leaf: slope.multiplied(node.name, matrices) for leaf, slope in found[node.arguments[0]].items()}
        elif node.kind == "norm":
            (argument,) = node.arguments
            middle, spread = centred(torch.as_tensor(values[argument]).to(like).expand_as(like))
            total = {
                leaf: slope.normed(middle, spread, units[node.name], matrices)
                for leaf, slope in found[argument].items()
            }
        elif node.kind in OPERATIONS:
            inner = [values[argument] for argument in node.arguments]
            for argument, partial in zip(node.arguments, OPERATIONS[node.kind].partials, strict=True):
                if partial is None or not found[argument]:
                    continue
                factor = partial(values[node], *inner)
                if isinstance(factor, Tensor):  # where() of two numbers has torch's default dtype
                    factor = factor.to(like)
                for leaf, slope in found[argument].items():
                    part = slope.scaled(factor, choosing=node.kind in _CHOOSING)
                    total[leaf] = total[leaf].plus(part) if leaf in total else part
        found[node] = total
    return found


def centred(v: Tensor) -> tuple[Tensor, Tensor]:
    """v less its mean, and σ."""
    middle = v - v.mean(-1, keepdim=True)
    return middle, (middle.square().mean(-1, keepdim=True) + NORM_EPSILON).sqrt()
