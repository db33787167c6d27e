"""`fused`: the generated kernels as an engine, with gradients of everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines.eager import run_eagerly
from recurra.engines.fused import gpu
from recurra.engines.fused.build import find_compiler
from recurra.engines.fused.kernels import REALS, kernel
from recurra.engines.fused.launch import Launch, launch
from recurra.engines.fused.memory import Buffer
from recurra.engines.fused.sequence import (
    arriving_gradients,
    as_run,
    gradient_like,
    whole_masks,
    with_contiguous_rows,
)
from recurra.engines.fused.stages import plan
from recurra.engines.fused.tiles import is_small
from recurra.engines.protocol import YES, Run, Support, Weights, differentiate, needs_other_derivatives, no
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
        return supports_cpu(device, dtype)

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
        if x.is_cuda:
            return gpu.run(cell, weights, x, initial, lengths, record=record)
        return run_on_cpu("sequence.hpp", cell, weights, x, initial, lengths, record=record)


def supports_cpu(device: torch.device, dtype: torch.dtype) -> Support:
    """Whether kernels in C++ can be had, whatever the cell."""
    if device.type != "cpu":
        return no(f"it has no kernels for {device.type}")
    if dtype not in REALS:
        return no(f"its CPU kernels compute in float32 and float64, not {dtype}")
    if find_compiler() is None:
        return no("there is no C++ compiler on this machine (looked for $CXX, g++, clang++, c++)")
    return YES


def run_on_cpu(
    around: str,
    cell: Cell,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: tuple[Float[Tensor, "_K B H"], ...],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
) -> Run:
    """A run of generated C++, with gradients where they are asked for; `around` is the file that takes the steps through time."""
    if x.dtype != weights.W.dtype:  # under autocast
        x = x.to(weights.W.dtype)
    units = (weights.units[name] for name in cell.graph.parameters)
    b, U = (each.to(weights.W.dtype) for each in (weights.b, weights.U))  # one that was put in from outside
    tensors = (x, weights.W, b, U, *units, *initial)
    seen = len(initial) if record else 1
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        # a copy of lengths: the caller's may be mutated before the backward run
        kept = None if lengths is None else lengths.clone(memory_format=torch.contiguous_format)
        results = _Sequence.apply(Task(cell, weights.noise, kept, record, seen, around), *tensors)  # type: ignore[no-untyped-call]
    else:
        states, final, _ = forward(Task(cell, weights.noise, lengths, record, seen, around), tensors, keep=False)
        results = [*_steps(states, len(x)), *final]
    return as_run(results, len(initial), record=record)


class Task(NamedTuple):
    """What a run has besides tensors with gradients. Those are x, W, b, U, per-unit parameters, initial states.

    `seen`: how many states leave the kernel, the first one first. `around`: the file that takes the steps through time.
    """

    cell: Cell
    noise: Mapping[str, Tensor]
    lengths: Tensor | None
    record: bool
    seen: int
    around: str = "sequence.hpp"


class _Given(NamedTuple):
    """What both runs are given, as the kernel reads it."""

    launch: Launch
    tensors: list[Tensor]
    units: list[Tensor]
    initial: list[Tensor]
    masks: list[Tensor]
    lengths: Tensor | None


def _prepare(task: Task, tensors: Sequence[Tensor]) -> _Given:
    graph = task.cell.graph
    x, W, b, U, *rest = map(with_contiguous_rows, tensors)
    units, initial = rest[: len(graph.parameters)], rest[len(graph.parameters) :]
    made = kernel(graph, W.dtype, task.around)
    if made.plan.folded.made:
        units = [*made.plan.folded.units(dict(zip(graph.parameters, units, strict=True))).values()]
    T, B, D = x.shape
    H = U.shape[1]
    prepared = launch(made, T, B, D, H, task.seen, torch.get_num_threads())
    masks: list[Tensor] = []
    if task.noise:
        whole = whole_masks(task.noise, H)
        masks = [whole[name] for name in made.plan.graph.noises]
    lengths = task.lengths
    return _Given(prepared, [x, W, b, U], units, initial, masks, lengths if lengths is None else lengths.contiguous())


def forward(task: Task, tensors: Sequence[Tensor], *, keep: bool) -> tuple[list[Tensor], list[Tensor], Buffer | None]:
    """The states that leave the engine, with their earlier values; the final values of all; what the backward run needs."""
    given = _prepare(task, tensors)
    x, found = given.tensors[0], given.launch
    states = [x.new_empty(shape) for shape in found.shapes]
    final = [x.new_empty(shape) for shape in found.final]
    kept = Buffer(found.kept, found.kernel.dtype) if keep else None
    address = 0 if kept is None else kept.address
    found.forward(given.tensors, given.units, given.initial, given.masks, given.lengths, states, final, address)
    return states, final, kept


def backward(
    task: Task,
    tensors: Sequence[Tensor],
    states: Sequence[Tensor],
    memory: int,
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    layout: torch.memory_format = torch.preserve_format,
) -> list[Tensor | None]:
    """The gradients that are wanted of `tensors`, in their layout or in this one, from those of what `forward` gave."""
    given = _prepare(task, tensors)
    found, graph = given.launch, task.cell.graph
    arriving, final = arriving_gradients(grads, len(graph.states), record=task.record)
    count = 4 + len(graph.parameters)
    folded = found.kernel.plan.folded
    of_units = wanted[4:count]
    if folded.made:
        of_units = [any(of_units)] * len(given.units)
    values = (*given.tensors, *given.units)
    made = [
        gradient_like(value, layout) if want else None
        for value, want in zip(values, (*wanted[:4], *of_units), strict=True)
    ]
    made += [
        given.tensors[0].new_empty(shape) if want else None
        for shape, want in zip(found.final, wanted[count:], strict=True)
    ]
    found.backward(given.tensors, given.units, given.masks, given.lengths, states, memory, arriving, final, made)
    if folded.made:
        after = 4 + len(given.units)
        made[4:after] = differentiate(
            lambda *units: [*folded.units(dict(zip(graph.parameters, units, strict=True))).values()],
            tensors[4:count],
            made[4:after],
            wanted[4:count],
        )
    return made


def _steps(states: Sequence[Tensor], T: int) -> list[Tensor]:
    """Without their earlier values."""
    return [state.narrow(0, len(state) - T, T) for state in states]


class _Sequence(torch.autograd.Function):
    """All steps at once. Inputs after the task: x, W, b, U, per-unit parameters, initial states."""

    @staticmethod
    def forward(ctx: Any, task: Task, *tensors: Tensor) -> tuple[Tensor, ...]:
        states, final, memory = forward(task, tensors, keep=True)
        ctx.task, ctx.memory = task, memory
        ctx.save_for_backward(*tensors, *states)
        ctx.set_materialize_grads(False)
        return (*_steps(states, len(tensors[0])), *final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: Task = ctx.task
        wanted = ctx.needs_input_grad[1:]
        saved = ctx.saved_tensors  # a checkpoint unpacks them once
        tensors, states = saved[: len(wanted)], saved[len(wanted) :]
        if needs_other_derivatives(grads):

            def again(*given: Tensor) -> list[Tensor]:
                return run_eagerly(task.cell, task.noise, task.lengths, given, record=task.record)

            return (None, *differentiate(again, tensors, grads, wanted, create_graph=True))
        return (None, *backward(task, tensors, states, ctx.memory.address, grads, wanted))
