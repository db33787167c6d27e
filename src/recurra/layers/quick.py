"""Calls from a layer straight to its prepared launches: in a short call, Python takes most of the time.

Only the launch of a size is kept from call to call: weights and their addresses are read anew, so that none can be stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from recurra.cells.notation import Cell
from recurra.engines.choose import choose
from recurra.engines.eager import run_eagerly
from recurra.engines.fused import gpu, gpu_chunks
from recurra.engines.fused.gpu import Task
from recurra.engines.fused.kernels import kernel
from recurra.engines.fused.launch import Launch, launch
from recurra.engines.fused.memory import Buffer
from recurra.engines.fused.sequence import gradient_like, with_contiguous_rows
from recurra.engines.protocol import Weights, differentiate, needs_other_derivatives, weight_shapes
from recurra.engines.run import is_traced, needs_eager
from recurra.layers.direction import Direction, batch_first, time_first
from recurra.layers.dropout import VariationalDropout
from recurra.types import CellState, Shape, State


def run_quickly(layer: Any, x: Any, axes: int, state: Any) -> tuple[Tensor, State] | None:
    """What a stack makes of inputs `[B, T, D]` (or `[B, D]`: one step), and its final state. `None` for anything unusual
    (transforms, hooks, masks, per-unit parameters, inputs that do not fit): then the layer's own `forward` runs."""
    if type(x) is not Tensor or x.ndim != axes or is_traced() or needs_eager() or _has_any_global_hook():
        return None
    layers = layer._modules["layers"]
    stack, dropout = layers._modules.values(), layer._modules["dropout"]
    if len(stack) > 1:
        drops = type(dropout) is not VariationalDropout or (dropout.training and dropout.p)
        if layer.residual or drops or _has_hooks(dropout):
            return None
    if state is not None and not _holds(state, len(stack)):
        return None
    final = []
    for k, directions in enumerate(stack):
        if len(directions._modules) > 1 or (state is not None and not _holds(state[k], 1)):
            return None
        made = _run(directions._modules["0"], layer.engine, x, None if state is None else state[k][0])
        if made is None:
            return None
        x, last = made
        final.append((last,))
    return x, tuple(final)


def _run(one: Direction, engine: str, x: Tensor, state: Any) -> tuple[Tensor, CellState] | None:
    """One layer in its one direction."""
    graph, H, known = one.cell.graph, one.hidden_size, one._parameters
    W, b = known.get("W"), known.get("b")  # a parametrized one is not there
    U: Tensor | None = known.get("U")
    if W is not None and not graph.matrices and W.is_cuda:
        U = W.new_empty(0, H)
    if W is None or b is None or U is None or graph.parameters or graph.noises or graph.constraints:
        return None
    if _has_hooks(one) or (one.training and one.weight_dropout):
        return None
    B, *steps, D = x.shape
    T, dtype = steps[0] if steps else 1, W.dtype
    whole = x.stride(-1) == 1 and not x.is_neg() and W.is_contiguous() and b.is_contiguous() and U.is_contiguous()
    if not whole or not B or not T or one.input_size != D or x.dtype != dtype or x.device != W.device:
        return None
    if b.dtype != dtype or U.dtype != dtype or W.is_neg() or b.is_neg() or U.is_neg():
        return None
    if x.is_cuda:
        return _run_on_gpu(one, engine, Weights(W, b, U), x, state)
    if not x.is_cpu:
        return None
    prepared = _prepare(engine, one.cell, dtype, B, T, D, H, torch.get_num_threads())
    if prepared is None or (state is None and one._modules["initial"]._parameters):  # type: ignore[union-attr]
        return None
    if (W.shape, b.shape, U.shape) != prepared.weight_shapes:
        return None
    depths = prepared.depths
    first = [0] * (3 * len(depths)) if state is None else _rows_of(state, depths, B, H, W)
    if first is None:
        return None
    if torch.is_grad_enabled():
        given = (x, W, b, U) if state is None else (x, W, b, U, *state)
        if any(each.requires_grad for each in given):
            outputs, *final = _QuickSequence.apply(prepared, one.cell, first, *given)  # type: ignore[no-untyped-call]
            return outputs, tuple(final)
    outputs, final, _ = _forward(prepared, first, x, W, b, U)
    return outputs, tuple(final)


def _forward(
    prepared: Launch, first: Sequence[int], x: Tensor, W: Tensor, b: Tensor, U: Tensor, memory: int = 0
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Outputs and final states as users see them; all values of the state that is the output."""
    _, B, _, H, _ = prepared.sizes
    depths = prepared.depths
    values = x.new_empty(prepared.shapes[0])
    final = [x.new_empty(B, H) if depth == 1 else x.new_empty(depth, B, H) for depth in depths]
    prepared.forward_unmasked(_rows(x), W, b, U, first, values, final, memory)
    size, line = ((B, H), (H, 1)) if x.ndim == 2 else ((B, x.shape[1], H), (H, B * H, 1))
    outputs = values.as_strided(size, line, depths[0] * B * H)
    if max(depths) > 1:
        final = [last if last.ndim == 2 else last.transpose(0, 1) for last in final]
    return outputs, final, values


class _QuickSequence(torch.autograd.Function):
    """The same with gradients. Inputs after what is known of the run: x, W, b, U and, where one was given, the state."""

    @staticmethod
    def forward(ctx: Any, prepared: Launch, cell: Cell, first: Sequence[int], *tensors: Tensor) -> tuple[Tensor, ...]:
        memory = Buffer(prepared.kept, prepared.kernel.dtype)
        x, W, b, U = tensors[:4]
        outputs, final, values = _forward(prepared, first, x, W, b, U, memory.address)
        ctx.prepared, ctx.cell, ctx.memory = prepared, cell, memory
        ctx.save_for_backward(*tensors, values)
        ctx.set_materialize_grads(False)
        return outputs, *final

    @staticmethod
    def backward(ctx: Any, arriving: Tensor | None, *final: Tensor | None) -> tuple[Tensor | None, ...]:
        x, W, b, U, *state, values = ctx.saved_tensors
        prepared: Launch = ctx.prepared
        _, _, _, *wanted = ctx.needs_input_grad
        if needs_other_derivatives((arriving, *final)):

            def again(*given: Tensor) -> list[Tensor]:
                return _run_eagerly(ctx.cell, *given)

            found = differentiate(again, (x, W, b, U, *state), (arriving, *final), wanted, create_graph=True)
            return None, None, None, *found
        made = [gradient_like(each) if want else None for each, want in zip((x, W, b, U), wanted, strict=False)]
        depths, (_, B, _, H, _) = prepared.depths, prepared.sizes
        arriving = arriving if arriving is None else with_contiguous_rows(arriving)
        last = [each if each is None else time_first(each).resolve_neg().contiguous() for each in final]
        of_states = [
            x.new_empty(depth, B, H) if want else None for depth, want in zip(depths, wanted[4:], strict=False)
        ]
        prepared.backward_unmasked(
            _rows(x),
            W,
            b,
            U,
            values,
            ctx.memory.address,
            (0, 0, 0) if arriving is None else _rows(arriving),
            [0 if each is None else each.data_ptr() for each in last],
            (0, 0, 0) if made[0] is None else _rows(made[0]),
            [0 if each is None else each.data_ptr() for each in made[1:]],
            [0 if each is None else each.data_ptr() for each in of_states] or (0,) * len(depths),
        )
        given = (each if each is None else batch_first(each) for each in of_states[: len(state)])
        return None, None, None, *made, *given


def _run_eagerly(cell: Cell, x: Tensor, W: Tensor, b: Tensor, U: Tensor, *state: Tensor) -> list[Tensor]:
    """The same by the plain loop, which has every derivative."""
    B, H = len(x), U.shape[1]
    initial = [time_first(value) for value in state] or [x.new_zeros(each.depth, B, H) for each in cell.graph.states]
    inputs = x[None] if x.ndim == 2 else x.transpose(0, 1)
    outputs, *final = run_eagerly(cell, {}, None, (inputs, W, b, U, *initial), record=False)
    return [outputs[0] if x.ndim == 2 else outputs.transpose(0, 1), *map(batch_first, final)]


def _rows(x: Tensor) -> tuple[int, int, int]:
    """Where the numbers of each step and batch row of `[B, T, D]` or `[B, D]` lie."""
    row, *step, _ = x.stride()
    return x.data_ptr(), step[0] if step else 0, row


@lru_cache(maxsize=1024)
def _prepare(
    engine: str, cell: Cell, dtype: torch.dtype, B: int, T: int, D: int, H: int, threads: int
) -> Launch | None:
    """The launch of a size, if the generated kernels are what runs it."""
    if choose(engine, cell, torch.device("cpu"), dtype, Shape(B, T, D, H)).name != "fused":
        return None
    return launch(kernel(cell.graph, dtype, "sequence.hpp"), T, B, D, H, 1, threads)


def _run_on_gpu(
    one: Direction, engine: str, weights: Weights, x: Tensor, state: Any
) -> tuple[Tensor, CellState] | None:
    """The same on a GPU, with or without gradients."""
    W, steps = weights.W, x.ndim == 3
    if torch.is_autocast_enabled("cuda") or (state is None and one._modules["initial"]._parameters):  # type: ignore[union-attr]
        return None
    B, T = x.shape[0], x.shape[1] if steps else 1
    task = _prepare_gpu(engine, one.cell, W.dtype, Shape(B, T, one.input_size, one.hidden_size), x.device)
    shapes = W.shape, weights.b.shape, weights.U.shape
    if task is None or shapes != weight_shapes(one.cell.graph, one.input_size, one.hidden_size):
        return None
    initial: Sequence[Tensor] = ()
    if state is not None:
        if not _fits(state, task.depths, B, one.hidden_size, W):
            return None
        initial = [time_first(value) for value in state]
    outputs, *final = task.run(weights, x.transpose(0, 1) if steps else x[None], initial)
    return outputs.transpose(0, 1) if steps else outputs[0], tuple([batch_first(last) for last in final])


@lru_cache(maxsize=1024)
def _prepare_gpu(engine: str, cell: Cell, dtype: torch.dtype, shape: Shape, device: torch.device) -> Task | None:
    """The task of a size, if the generated kernels are what runs it."""
    chosen = choose(engine, cell, device, dtype, shape).name
    if chosen == "scan":
        return gpu_chunks.prepare(cell, shape, dtype, device)
    return gpu.prepare(cell, shape, dtype, device) if chosen == "fused" else None


def _fits(state: Any, depths: Sequence[int], B: int, H: int, W: Tensor) -> bool:
    return _holds(state, len(depths)) and all(
        type(value) is Tensor
        and value.dtype == W.dtype
        and value.device == W.device
        and not value.is_neg()
        and value.shape == ((B, H) if depth == 1 else (B, depth, H))
        for value, depth in zip(state, depths, strict=True)
    )


def _rows_of(state: Any, depths: Sequence[int], B: int, H: int, W: Tensor) -> list[int] | None:
    """Where the numbers of a state lie, as a kernel reads them."""
    if not _fits(state, depths, B, H, W) or any(value.stride(-1) != 1 for value in state):
        return None
    return [
        number
        for value, depth in zip(state, depths, strict=True)
        for number in (value.data_ptr(), 0 if depth == 1 else value.stride(1), value.stride(0))
    ]


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _holds(values: object, count: int) -> bool:
    return isinstance(values, tuple | list) and len(values) == count
