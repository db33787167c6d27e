from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recurra.cells.notation import Cell, noise
from recurra.errors import OptionError


class _Masked:
    """`U`, with every product taken of the masked argument."""

    def __init__(self, U: Any, mask: Any):
        self._U, self._mask = U, mask

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        product, mask = getattr(self._U, name), self._mask
        return lambda v: product(v * mask)


def recurrent_dropout(cell: Cell, p: float) -> Cell:
    """The cell, with units dropped from what its recurrent products read: one mask for a whole sequence (variational).

    Gal & Ghahramani 2016, A Theoretically Grounded Application of Dropout in Recurrent Neural Networks. The kept units are
    scaled by 1 / (1 - p), so evaluation needs no change.

    ```python
    layer = rc.Recurrent(rc.recurrent_dropout(rc.find_cell("gru"), 0.2), 3, 8)
    ```
    """
    if not 0 <= p < 1:
        raise OptionError(f"recurrent_dropout: p must lie in [0, 1); got {p}.")

    def dropped(x: Any, U: Any, *states: Any, **options: Any) -> Any:
        mask = noise(x, "kept", chance=1 - p, scale=1 / (1 - p), per="sequence")
        return cell.function(x, _Masked(U, mask), *states, **options)

    return Cell(
        dropped,
        name=f"recurrent_dropout({cell.name}, {p})",
        states=cell.states,
        options=cell.options,
        bias=cell.bias,
        constraints=cell.constraints,
        equations=cell.equations,
    )
