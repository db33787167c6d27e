"""A run of a cell through time: on the engine that is asked for, whatever torch is doing around it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from recurra.cells.notation import Cell
from recurra.engines import operators
from recurra.engines.choose import ENGINES, choose, computed_dtype
from recurra.engines.protocol import Run, Weights
from recurra.errors import EngineError
from recurra.types import Float, Int, Shape


def is_traced() -> bool:
    """Whether torch compiles, exports, or reads operations by a mode of its own: `make_fx`, fake tensors."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def needs_eager() -> bool:
    """Whether torch looks at each operation, so that kernels of our own would hide what it is after."""
    return (
        torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
    )


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

    While torch compiles, exports or traces, the run is one operator of its graph. Within the transforms of `torch.func`,
    forward-mode derivatives and traces of `torch.jit` only the plain loop runs.
    """
    if torch.compiler.is_compiling() or (is_traced() and asked not in ("eager", "vendor")):
        return operators.run(asked, text, weights, x, initial, lengths, record=record)
    if needs_eager():
        if asked not in ("auto", "eager"):
            raise EngineError(
                f"engine {asked!r} does not run within torch.func's transforms (grad, vmap, jvp), forward-mode derivatives "
                "and traces of torch.jit. Use engine='auto' or 'eager', which take the plain loop there."
            )
        return ENGINES["eager"].run(cell, weights, x, initial, lengths, record=record)
    shape = Shape(x.shape[1], x.shape[0], x.shape[2], initial[0].shape[-1])
    dtype = computed_dtype(x.device, weights.W.dtype)
    asked = asked if shape.B else "eager"  # no rows are no work for kernels
    chosen = choose(asked, cell, x.device, dtype, shape, record=record)
    return chosen.run(cell, weights, x, initial, lengths, record=record)
