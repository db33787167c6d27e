"""`fused`: the generated kernels as an engine, with gradients of everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines.fused import gpu
from recurra.engines.fused.build import find_compiler
from recurra.engines.fused.kernels import REALS, Kernel, kernel, rows
from recurra.engines.fused.memory import Buffer
from recurra.engines.fused.sequence import arriving_gradients, as_run, whole_masks, with_contiguous_rows
from recurra.engines.fused.stages import plan
from recurra.engines.fused.tiles import is_small
from recurra.engines.protocol import YES, Run, Support, Weights, no
from recurra.types import Float, Int, Shape


class Fused:
    name = "fused"

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int:
        """Before torch's own kernels (20), except on a GPU where those are faster: for large networks and batches."""
        if device.type != "cuda" or is_small(plan(cell.graph), shape.B, shape.H, dtype.itemsize, device):
            return 30
        return 10

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support:
        if device.type == "cuda":
            return gpu.supports(cell, device, dtype, shape)
        if device.type != "cpu":
            return no(f"it has no kernels for {device.type}")
        if dtype not in REALS:
            return no(f"its CPU kernels compute in float32 and float64, not {dtype}")
        if find_compiler() is None:
            return no("there is no C++ compiler on this machine (looked for $CXX, g++, clang++, c++)")
        return YES

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "_K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run:
        folded = plan(cell.graph).folded
        if folded.made:
            weights = replace(weights, units=folded.units(weights.units))
        if x.is_cuda:
            return gpu.run(plan(cell.graph), weights, x, initial, lengths, record=record)
        # copies: the kernel reads neighbours in memory, and the caller's may be mutated before the backward run
        kept = None if lengths is None else lengths.clone(memory_format=torch.contiguous_format)
        masks = whole_masks(weights, initial[0].shape[-1]) if weights.noise else {}
        made = kernel(cell.graph, weights.W.dtype)
        task = _Task(made, tuple(masks[name] for name in made.plan.graph.noises), kept, record)
        if x.dtype != weights.W.dtype:  # under autocast
            x = x.to(weights.W.dtype)
        results = _Sequence.apply(  # type: ignore[no-untyped-call]
            task,
            x,
            weights.W,
            weights.b,
            weights.U,
            *(weights.units[name] for name in made.plan.graph.parameters),
            *initial,
        )
        return as_run(results, len(initial), record=record)


class _Task(NamedTuple):
    """What a run has besides tensors with gradients."""

    kernel: Kernel
    masks: tuple[Tensor, ...]
    lengths: Tensor | None
    record: bool

    def arguments(self, structure: Any, x: Tensor, W: Tensor, b: Tensor, U: Tensor, units: Sequence[Tensor]) -> Any:
        """The structure of a run, with what forward and backward have in common."""
        (T, B, D), H = x.shape, U.shape[1]
        made = structure(T=T, B=B, D=D, H=H, threads=torch.get_num_threads(), x=rows(x))
        made.W, made.W_row, made.bias = W.data_ptr(), W.stride(0), b.data_ptr()
        made.U, made.U_row = U.data_ptr(), U.stride(0)
        if self.lengths is not None:
            made.lengths = self.lengths.data_ptr()
        for k, value in enumerate(units):
            made.parameter[k] = value.data_ptr()
        for k, mask in enumerate(self.masks):
            made.noise[k] = rows(mask.expand(T, B, H))
        return made


class _Sequence(torch.autograd.Function):
    """All steps at once. Inputs after the task: x, W, b, U, per-unit parameters, initial states."""

    @staticmethod
    def forward(ctx: Any, task: _Task, *tensors: Tensor) -> tuple[Tensor, ...]:
        x, W, b, U, *rest = map(with_contiguous_rows, tensors)
        made = task.kernel
        count = len(made.plan.graph.parameters)
        units, initial = rest[:count], rest[count:]
        (T, B, _), H = x.shape, U.shape[1]
        arguments = task.arguments(made.Forward, x, W, b, U, units)
        seen: list[Tensor] = []  # states that leave the engine: the first or all
        final: list[Tensor] = []  # the last values of all
        for k, first in enumerate(initial):
            K = first.shape[0]
            final.append(x.new_empty(K, B, H))
            arguments.first[k], arguments.final[k] = rows(first), final[-1].data_ptr()
            if task.record or not seen:
                seen.append(x.new_empty(K + T, B, H))
                arguments.state[k] = seen[-1].data_ptr()
        memory = Buffer(made.forward_memory(arguments), x.dtype)
        arguments.memory = memory.address
        made.forward(arguments)

        ctx.task, ctx.memory = task, memory
        ctx.save_for_backward(x, W, b, U, *units, *seen)
        ctx.set_materialize_grads(False)
        return (*(state[-T:] for state in seen), *final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: _Task = ctx.task
        made = task.kernel
        x, W, b, U, *rest = ctx.saved_tensors
        graph = made.plan.graph
        units, seen = rest[: len(graph.parameters)], rest[len(graph.parameters) :]
        B, H = x.shape[1], U.shape[1]
        arguments = task.arguments(made.Backward, x, W, b, U, units)
        arguments.memory = ctx.memory.address
        for k, state in enumerate(seen):
            arguments.state[k] = state.data_ptr()
        arriving, final = arriving_gradients(grads, len(graph.states), record=task.record)
        for k, (each, last) in enumerate(zip(arriving, final, strict=True)):
            if each is not None:
                arguments.arriving[k] = rows(each)
            if last is not None:
                arguments.final[k] = last.data_ptr()

        wanted = ctx.needs_input_grad[1:]
        made_for = zip((x, W, b, U, *units), wanted, strict=False)
        dx, *dweights = [torch.empty_like(value) if want else None for value, want in made_for]
        dstates = [
            x.new_empty(state.depth, B, H) if want else None
            for state, want in zip(graph.states, wanted[1 + len(dweights) :], strict=True)
        ]
        if dx is not None:
            arguments.d_x = rows(dx)
        arguments.d_W, arguments.d_bias, arguments.d_U, *of_units = map(_address, dweights)
        arguments.d_parameter[: len(of_units)] = of_units
        arguments.d_state[:] = [_address(each) for each in dstates]
        scratch = Buffer(made.backward_memory(arguments), x.dtype)
        arguments.scratch = scratch.address
        made.backward(arguments)
        return (None, dx, *dweights, *dstates)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
