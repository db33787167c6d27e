"""A run of a cell through time: on the engine that is asked for, whatever torch is doing around it."""

from __future__ import annotations

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines import operators
from recurra.engines.choose import ENGINES, choose, computed_dtype
from recurra.engines.protocol import Run, Weights
from recurra.errors import EngineError
from recurra.types import Float, Int, Shape


def run_cell(
    asked: str,
    cell: Cell,
    text: str,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: tuple[Float[Tensor, "_K B H"], ...],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool = False,
) -> Run:
    """`asked` is the name of an engine or `auto`; `text` the cell as operators take it.

    While torch compiles or exports, the run is one operator of its graph. Within the transforms of `torch.func` only the
    plain loop runs.
    """
    if torch.compiler.is_compiling():
        return operators.run(asked, text, weights, x, initial, lengths, record=record)
    if torch._C._are_functorch_transforms_active():
        if asked not in ("auto", "eager"):
            raise EngineError(
                f"engine {asked!r} does not run within torch.func's transforms (grad, vmap, jvp). Use engine='auto' or "
                "'eager', which take the plain loop there."
            )
        return ENGINES["eager"].run(cell, weights, x, initial, lengths, record=record)
    shape = Shape(x.shape[1], x.shape[0], x.shape[2], initial[0].shape[-1])
    dtype = computed_dtype(x.device, weights.W.dtype)
    chosen = choose(
        asked if shape.B else "eager", cell, x.device, dtype, shape, record=record
    )  # no rows are no work for kernels
    return chosen.run(cell, weights, x, initial, lengths, record=record)
