"""Runs as operators of torch, which `torch.compile` and `torch.export` keep whole: T and B stay symbols, nothing is unrolled.

An operator takes tensors, numbers and strings, so a cell travels as the JSON of its graph: a program that was exported finds
its kernels again in another process. Which engine runs is chosen when the operator
runs: on a GPU by the sizes of that call; on a CPU `auto` chooses as for one step, so that `scan` must be asked for by name.

`recurra::run` gives the states of each step, the final states, and what its backward run needs of it. Only the fused
engine's CPU kernels keep that; for the others `recurra::run_backward` runs forward once more, with autograd's record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.cells.stored import restore_cell, store_cell
from recurra.engines.choose import choose
from recurra.engines.fused import engine as fused
from recurra.engines.fused.stages import plan
from recurra.engines.protocol import Engine, Run, Weights, differentiate
from recurra.errors import ShapeError
from recurra.types import Shape

_COMMON = (
    "str engine, str cell, bool record, Tensor x, Tensor W, Tensor b, Tensor U, Tensor[] units, Tensor[] initial, "
    "Tensor[] noise, Tensor? lengths"
)
_LIBRARY = torch.library.Library("recurra", "FRAGMENT")
_LIBRARY.define(f"run({_COMMON}) -> Tensor[]")
_LIBRARY.define(f"run_backward({_COMMON}, Tensor[] kept, Tensor?[] grads, bool[] wanted) -> Tensor[]")
_cells: dict[str, Cell] = {}


def text_of(cell: Cell) -> str:
    """The cell as a string that an operator takes."""
    text = json.dumps(store_cell(cell), sort_keys=True)
    _cells.setdefault(text, cell)
    return text


def _cell(text: str) -> Cell:
    found = _cells.get(text)
    if found is None:
        found = _cells.setdefault(text, restore_cell(json.loads(text)))
    return found


def run(
    asked: str,
    text: str,
    weights: Weights,
    x: Tensor,
    initial: Sequence[Tensor],
    lengths: Tensor | None,
    *,
    record: bool,
) -> Run:
    """What the engine's own `run` gives, as one operator."""
    noise, units = list(weights.noise.values()), list(weights.units.values())
    x = x.to(weights.W.dtype)  # under autocast
    results = torch.ops.recurra.run(
        asked, text, record, x, weights.W, weights.b, weights.U, units, list(initial), noise, lengths
    )
    count = len(initial)
    seen = count if record else 1
    states = tuple(results[:seen])
    return Run(states[0], tuple(results[seen : seen + count]), states if record else None)


def kept_memory(cell: Cell, shape: Shape) -> tuple[int, list[int]]:
    """How many numbers a forward run of a CPU kernel keeps for its backward run if no state leaves it, and where the values of
    each state begin among them. Sizes may be symbols, so the kernel itself cannot be asked."""
    B, T, _, H = shape
    made = plan(cell.graph)
    total, starts = _whole_lines(T * made.slots * B * H), []
    for state in made.graph.states:
        starts.append(total)
        total += _whole_lines((state.depth + T) * B * H)
    return total, starts


def _whole_lines(numbers: int) -> int:
    return (numbers + 15) // 16 * 16  # as `Parts::take` does


class _Call:
    """The arguments of an operator, put together again."""

    def __init__(self, asked: str, text: str, record: bool, *given: Any):
        x, W, b, U, units, initial, noise, lengths = given
        self.asked, self.cell, self.record, self.lengths = asked, _cell(text), record, lengths
        self.noise = dict(zip(self.cell.graph.noises, noise, strict=True))
        self.tensors = [x, W, b, U, *units, *initial]
        self.shape = Shape(x.shape[1], x.shape[0], x.shape[2], U.shape[1])
        # on a CPU as for one step, so that the choice is the same for symbols; elsewhere nothing is kept, whatever runs
        of_one = Shape(1, 1, x.shape[2], U.shape[1])
        self.is_fused = x.device.type == "cpu" and self.choose(of_one).name == "fused"

    def choose(self, shape: Shape) -> Engine:
        x, W = self.tensors[:2]
        return choose(self.asked, self.cell, x.device, W.dtype, shape, record=self.record)

    @property
    def task(self) -> fused.Task:
        return fused.Task(self.cell, self.noise, self.lengths, self.record, seen=0)

    def run(self, *tensors: Tensor) -> list[Tensor]:
        """By the engine's own `run`: the states of each step, and the final ones."""
        x, W, b, U, *rest = tensors
        names = self.cell.graph.parameters
        weights = Weights(W, b, U, dict(zip(names, rest, strict=False)), self.noise)
        initial = tuple(rest[len(names) :])
        run = self.choose(self.shape).run(self.cell, weights, x, initial, self.lengths, record=self.record)
        return [*(run.states or [run.outputs]), *run.final]


def _run(*given: Any) -> list[Tensor]:
    call = _Call(*given)
    if not call.shape.B:  # no rows are no work for kernels; what lies in no tensor may be left as it is
        return _shapes(*given)
    if call.lengths is not None and call.lengths.device.type == "cpu":  # kernels trust them
        low, high = int(call.lengths.min()), int(call.lengths.max())
        if low < 0 or high > call.shape.T:
            raise ShapeError(f"lengths must lie between 0 and T = {call.shape.T}; got {low} to {high}.")
    if not call.is_fused:
        return [value.contiguous() for value in call.run(*call.tensors)]
    B, T, _, H = call.shape
    _, starts = kept_memory(call.cell, call.shape)
    _, final, kept = fused.forward(call.task, call.tensors, keep=True)
    assert kept is not None
    memory = kept.lend()
    depths = [state.depth for state in call.cell.graph.states]
    seen = list(zip(starts, depths, strict=True))[: len(depths) if call.record else 1]
    states = [memory[start:].narrow(0, depth * B * H, T * B * H).view(T, B, H).clone() for start, depth in seen]
    return [*states, *final, memory]


def _run_backward(*given: Any) -> list[Tensor]:
    *common, kept, grads, wanted = given
    call = _Call(*common)
    if not call.shape.B:
        found: list[Tensor | None] = [None] * len(call.tensors)
    elif call.is_fused:
        layout = torch.contiguous_format
        found = fused.backward(call.task, call.tensors, [], kept[0].data_ptr(), grads, wanted, layout)
    else:  # of an operator, results may be no views of arguments
        found = [
            grad if grad is None else grad.clone(memory_format=torch.contiguous_format)
            for grad in differentiate(call.run, call.tensors, grads, wanted)
        ]
    return [
        value.new_empty(0) if not want else torch.zeros_like(value) if grad is None else grad
        for value, grad, want in zip(call.tensors, found, wanted, strict=True)
    ]


for _name, _function in (("run", _run), ("run_backward", _run_backward)):
    _LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")


def _shapes(*given: Any) -> list[Tensor]:
    call = _Call(*given)
    x, (B, T, _, H) = call.tensors[0], call.shape
    depths = [state.depth for state in call.cell.graph.states]
    seen = depths if call.record else depths[:1]
    states = [x.new_empty(T, B, H) for _ in seen]
    memory = [x.new_empty(kept_memory(call.cell, call.shape)[0])] if call.is_fused else []
    return [*states, *(x.new_empty(depth, B, H) for depth in depths), *memory]


def _backward_shapes(*given: Any) -> list[Tensor]:
    *common, _kept, _grads, wanted = given
    tensors = _Call(*common).tensors
    return [
        torch.empty_like(value, memory_format=torch.contiguous_format) if want else value.new_empty(0)
        for value, want in zip(tensors, wanted, strict=True)
    ]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    asked, text, record, x, W, b, U, units, initial, noise, lengths = inputs
    tensors = [x, W, b, U, *units, *initial]
    ctx.given, ctx.counts = (asked, text, record), (len(units), len(initial), len(noise))
    ctx.wanted = [tensor.requires_grad for tensor in tensors]
    seen = len(initial) if record else 1
    ctx.has_lengths, ctx.results = lengths is not None, seen + len(initial)
    kept = output[ctx.results :]
    ctx.save_for_backward(*tensors, *noise, *([] if lengths is None else [lengths]), *kept)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    units, initial, noise = ctx.counts
    saved = list(ctx.saved_tensors)

    def take(count: int) -> list[Tensor]:
        taken, saved[:] = saved[:count], saved[count:]
        return taken

    tensors = take(4)
    of_units, of_initial, of_noise = take(units), take(initial), take(noise)
    lengths = take(1)[0] if ctx.has_lengths else None
    found = torch.ops.recurra.run_backward(
        *ctx.given,
        *tensors,
        of_units,
        of_initial,
        of_noise,
        lengths,
        saved,
        list(grads[: ctx.results]),
        ctx.wanted,
    )
    results = [grad if want else None for grad, want in zip(found, ctx.wanted, strict=True)]
    return (None, None, None, *results[:4], results[4 : 4 + units], results[4 + units :], [None] * noise, None)


torch.library.register_fake("recurra::run", _shapes, lib=_LIBRARY)
torch.library.register_fake("recurra::run_backward", _backward_shapes, lib=_LIBRARY)
torch.library.register_autograd("recurra::run", _differentiate, setup_context=_keep, lib=_LIBRARY)
