"""`fused`: the generated kernels as an engine, with gradients of everything."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recurra.cells.graph import block
from recurra.cells.notation import Cell
from recurra.engines.fused import gpu
from recurra.engines.fused.build import find_compiler
from recurra.engines.fused.fold import fold
from recurra.engines.fused.kernels import Kernel, kernel
from recurra.engines.fused.memory import Buffer
from recurra.engines.fused.products import REALS, gather, threads_for, times, with_contiguous_rows
from recurra.engines.fused.sequence import (
    arriving_gradients,
    as_run,
    final_values,
    mask_arguments,
    recurrent_gradient,
    whole_masks,
)
from recurra.engines.protocol import YES, Answer, Run, Weights, no
from recurra.types import Float, Int, Shape


class Fused:
    name = "fused"

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Answer:
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
        folded = fold(cell.graph)
        graph = folded.graph
        if folded.made:
            weights = replace(weights, units=folded.units(weights.units))
        if x.is_cuda:
            return gpu.run(graph, weights, x, initial, lengths, record=record)
        made = kernel(graph, weights.W.dtype)
        names = tuple(weights.units)
        plain = torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()
        with plain:
            # a copy: the kernel reads neighbours in memory, and the caller may change his before the backward run
            kept = None if lengths is None else lengths.clone(memory_format=torch.contiguous_format)
            task = _Task(made, names, whole_masks(weights, initial[0].shape[-1]), kept, record)
            results = _Sequence.apply(  # type: ignore[no-untyped-call]
                task, x.to(weights.W.dtype), weights.W, weights.b, weights.U, *weights.units.values(), *initial
            )
        return as_run(results, len(initial), record=record)


@dataclass(frozen=True, eq=False)
class _Task:
    """What a run has besides tensors with gradients."""

    kernel: Kernel
    units: tuple[str, ...]
    masks: dict[str, Tensor]
    lengths: Tensor | None
    record: bool

    def common(self, T: int, B: int, H: int, threads: int) -> dict[str, Tensor | int | None]:
        sizes = {"T": T, "B": B, "H": H, "threads": threads, "lengths": self.lengths}
        return {**sizes, **mask_arguments(self.masks)}


class _Sequence(torch.autograd.Function):
    """All steps at once. Inputs after the task: x, W, b, U, per-unit parameters, initial states."""

    @staticmethod
    def forward(ctx: Any, task: _Task, *tensors: Tensor) -> tuple[Tensor, ...]:
        x, W, b, U, *rest = (with_contiguous_rows(tensor) for tensor in tensors)
        units, initial = rest[: len(task.units)], rest[len(task.units) :]
        made = task.kernel
        plan, graph = made.plan, made.plan.graph
        T, B, _ = x.shape
        H, G = U.shape[1], len(graph.drives)

        kept = [Buffer(T * B * plan.slots * H, x.dtype)]
        tape = kept[0].data.view(T, B, plan.slots * H)
        times(x, W, tape[:, :, : G * H], transposed=True)
        states = []
        for k, first in enumerate(initial):
            size = (len(first) + T) * B * H
            if k == 0 or task.record:
                state = x.new_empty(size)
            else:  # nobody outside sees it
                kept.append(Buffer(size, x.dtype))
                state = kept[-1].data
            states.append(state.view(-1, B, H))
            states[-1][: len(first)] = first
        threads = threads_for(T * B * H * max(H * len(graph.matrices), 64), B)
        arguments = task.common(T, B, H, threads)
        arguments |= {"workspace": made.workspace("forward", B, H, threads), "tape": tape, "bias": b}
        arguments |= _named(made, states, "")
        arguments |= {f"p_{name}": value for name, value in zip(task.units, units, strict=True)}
        for k, group in enumerate(plan.groups):
            arguments[f"weights_{k}"] = made.pack(block(U, graph.matrices, group.names, H).contiguous(), k, back=False)
        made.call("forward", arguments)

        ctx.task, ctx.threads, ctx.sizes, ctx.kept = task, threads, (T, B, H), kept
        ctx.save_for_backward(x, W, b, U, tape, *units, *states)
        ctx.set_materialize_grads(False)
        sequences = [state[-T:] for state in (states if task.record else states[:1])]
        return (*sequences, *(final_values(state, T, task.lengths) for state in states))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: _Task = ctx.task
        made, (T, B, H), threads = task.kernel, ctx.sizes, ctx.threads
        plan, graph = made.plan, made.plan.graph
        x, W, b, U, tape, *rest = ctx.saved_tensors
        units, states = rest[: len(task.units)], rest[len(task.units) :]
        S = len(states)
        arriving, final = arriving_gradients(grads, S, record=task.record)

        lent = Buffer(T * B * plan.gradients * H, x.dtype)
        gradient = lent.data.view(T, B, plan.gradients * H)
        sums = x.new_zeros(threads, len(plan.accumulated), H)
        first = [x.new_empty(len(state) - T, B, H) for state in states]
        arguments = task.common(T, B, H, threads)
        arguments |= {"workspace": made.workspace("backward", B, H, threads), "tape": tape, "bias": b}
        arguments |= {"gradient": gradient, "sums": sums}
        arguments |= _named(made, states, "")
        arguments |= {f"p_{name}": value for name, value in zip(task.units, units, strict=True)}
        arguments |= _named(made, arriving, "_arriving") | _named(made, final, "_final")
        arguments |= _named(made, [0 if each is None else each.stride(0) for each in arriving], "_arriving_step")
        arguments |= _named(made, [0 if each is None else each.stride(1) for each in arriving], "_arriving_lane")
        arguments |= _named(made, first, "_initial")
        for k, group in enumerate(plan.groups):
            arguments[f"weights_{k}"] = made.pack(block(U, graph.matrices, group.names, H).contiguous(), k, back=True)
        computed = {k: x.new_empty(T, B, H) for k in plan.arguments if k is not None}
        arguments |= {f"argument_{k}": value for k, value in computed.items()}
        made.call("backward", arguments)

        wanted = ctx.needs_input_grad[1:]
        drives = gradient[:, :, : len(graph.drives) * H]
        totals = dict(zip(plan.accumulated, sums.sum(0), strict=True))
        dx = None
        if wanted[0]:
            dx = torch.empty_like(x)
            times(drives, W, dx, transposed=False)
        dW = gather(drives, x) if wanted[1] else None
        db = torch.cat([totals["bias", name] for name in graph.drives]) if wanted[2] and graph.drives else None
        dU = recurrent_gradient(made.plan, gradient, states, computed, U, gather) if wanted[3] else None
        return (None, dx, dW, db, dU, *(totals["parameter", name] for name in task.units), *first)


def _named(made: Kernel, values: Iterable[Any], suffix: str) -> dict[str, Any]:
    """One value for each state, under the names that the kernel's structure has for them."""
    return {name + suffix: value for name, value in zip(made.states, values, strict=True)}
