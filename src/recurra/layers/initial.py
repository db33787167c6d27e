"""First values of recurrent matrices, and the forms that a cell may ask its matrices to keep."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from, quoted

Initialiser = Callable[[Tensor], None]
"""Fills one recurrent matrix `[H, H]` in place."""


def orthogonal(matrix: Tensor) -> None:
    """All singular values 1: the state is turned, not shrunk. The default."""
    torch.nn.init.orthogonal_(matrix)


def xavier(matrix: Tensor) -> None:
    """Glorot & Bengio 2010."""
    torch.nn.init.xavier_uniform_(matrix)


def uniform(matrix: Tensor) -> None:
    """Uniform in ± 1/√H, as `torch.nn` does."""
    bound = 1 / math.sqrt(matrix.shape[-1])
    torch.nn.init.uniform_(matrix, -bound, bound)


def identity(matrix: Tensor) -> None:
    """Le et al. 2015, for `elman(activation="relu")`."""
    torch.nn.init.eye_(matrix)


@dataclass(frozen=True)
class _SpectralRadius:
    """An initialiser that can be pickled with the layer that it belongs to."""

    rho: float
    density: float

    def __call__(self, matrix: Tensor) -> None:
        values = torch.randn(matrix.shape, dtype=torch.float64)
        if self.density < 1:
            values *= torch.rand(matrix.shape, dtype=torch.float64) < self.density
        radius = torch.linalg.eigvals(values).abs().max()
        if not radius > 0:
            raise OptionError(
                f"spectral_radius: with density {self.density}, a matrix of {list(matrix.shape)} has no eigenvalue but 0. "
                "Use a higher density."
            )
        matrix.copy_(values * (self.rho / radius))


def spectral_radius(rho: float, density: float = 1.0) -> Initialiser:
    """A random matrix scaled so that its largest eigenvalue has magnitude `rho`: near 1 for long memory.

    - `density`: the share of its numbers that are not zero.

    ```python
    layer = rc.Recurrent("elman", 3, 50, init=rc.spectral_radius(0.9, density=0.1))
    ```
    """
    if not rho > 0:
        raise OptionError(f"spectral_radius: rho must be positive; got {rho}.")
    if not 0 < density <= 1:
        raise OptionError(f"spectral_radius: density must lie above 0 and not above 1; got {density}.")
    return _SpectralRadius(rho, density)


INITIALISERS: dict[str, Initialiser] = {f.__name__: f for f in (orthogonal, xavier, uniform, identity)}


def fill(matrix: Tensor, init: Initialiser) -> None:
    """Fill a matrix of any dtype: factorisations exist from float32 up."""
    values = torch.empty_like(matrix, dtype=torch.promote_types(matrix.dtype, torch.float32))
    init(values)
    matrix.copy_(values)


def find_initialiser(init: Any) -> Initialiser:
    """By name (`orthogonal`, `spectral_radius(0.9)`), or a function of your own that fills a matrix in place."""
    if not isinstance(init, str):
        if not callable(init):
            raise OptionError(
                f"init must be the name of an initialiser or a function that fills a matrix in place; got {quoted(init)}."
            )
        made: Initialiser = init
        return made
    name, bracket, _ = init.partition("(")
    if name.strip() != "spectral_radius":
        return INITIALISERS[choose_from("init", init, [*INITIALISERS, "spectral_radius(0.9)"])]
    try:
        call: Any = ast.parse(init.strip() if bracket else f"{init}()", mode="eval").body
        values = [ast.literal_eval(each) for each in call.args]
        return spectral_radius(*values, **{each.arg: ast.literal_eval(each.value) for each in call.keywords})
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        raise OptionError(
            f"init={quoted(init)} cannot be read. Write spectral_radius(0.9) or spectral_radius(0.9, density=0.1)."
        ) from None


class _Own:
    """A function of the user's as a layer's initialiser. Copies of the layer have it; a pickled layer goes without it, since
    functions of a notebook or a lambda do not pickle."""

    def __init__(self, function: Initialiser):
        self.function = function

    def __call__(self, matrix: Tensor) -> None:
        self.function(matrix)

    def __deepcopy__(self, memo: Any) -> _Own:
        return self

    def __reduce__(self) -> Any:
        return _Own, (forgotten,)


def forgotten(matrix: Tensor) -> NoReturn:
    """What stands for an initialiser of the user's own in a layer that was unpickled."""
    raise OptionError(
        "this layer was unpickled without the function that gave its first values. Pass it again: reset_parameters(init)."
    )


def kept_initialiser(init: Initialiser) -> Initialiser:
    """As a layer keeps it, to give first values again."""
    return init if init in INITIALISERS.values() or isinstance(init, _SpectralRadius | _Own) else _Own(init)


def fill_constrained(matrix: Tensor, form: str) -> None:
    """First values of a matrix that `constrained` turns into its form."""
    if form == "antisymmetric":
        torch.nn.init.normal_(matrix, std=1 / math.sqrt(2 * matrix.shape[-1]))
    else:  # orthogonal: rotations of pairs of units by angles drawn uniformly (Henaff et al. 2016)
        matrix.zero_()
        pairs = torch.arange(0, matrix.shape[-1] - 1, 2)
        matrix[pairs, pairs + 1] = torch.empty(len(pairs), dtype=matrix.dtype, device=matrix.device).uniform_(
            -math.pi, math.pi
        )


def constrained(matrix: Tensor, form: str) -> Tensor:
    """A free matrix as the nearest thing that the cell asked for: A − Aᵀ, or its exponential, which is orthogonal."""
    antisymmetric = matrix - matrix.mT
    if form == "antisymmetric":
        return antisymmetric
    wide = antisymmetric.to(torch.promote_types(matrix.dtype, torch.float32))
    exponential: Tensor = torch.linalg.matrix_exp(wide)
    return exponential.to(matrix.dtype)
