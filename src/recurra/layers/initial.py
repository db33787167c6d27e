"""First values of recurrent matrices, and the forms that a cell may ask its matrices to keep."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from

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

    def scaled(matrix: Tensor) -> None:
        values = torch.randn(matrix.shape, dtype=torch.float64)
        if density < 1:
            values *= torch.rand(matrix.shape, dtype=torch.float64) < density
        radius = torch.linalg.eigvals(values).abs().max()
        if not radius > 0:
            raise OptionError(
                f"spectral_radius: with density {density}, a matrix of {list(matrix.shape)} has no eigenvalue but 0. "
                "Use a higher density."
            )
        matrix.copy_(values * (rho / radius))

    return scaled


INITIALISERS: dict[str, Initialiser] = {f.__name__: f for f in (orthogonal, xavier, uniform, identity)}


def fill(matrix: Tensor, init: Initialiser) -> None:
    """Fill a matrix of any dtype: factorisations exist from float32 up."""
    values = torch.empty_like(matrix, dtype=torch.promote_types(matrix.dtype, torch.float32))
    init(values)
    matrix.copy_(values)


def find_initialiser(init: str | Initialiser) -> Initialiser:
    """By name, or a function of your own that fills a matrix in place."""
    return INITIALISERS[choose_from("init", init, INITIALISERS)] if isinstance(init, str) else init


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
