"""The plain loop in PyTorch: the equations as they stand, step by step. Every other engine is tested against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recurra.cells.graph import block
from recurra.cells.notation import Cell, gains_in_order, remember
from recurra.engines.protocol import YES, Run, Support, Weights
from recurra.types import Float, Int, Shape


class _Drives:
    """`x` at one step: `x.NAME` is that drive, `x[NAME]` that mask."""

    def __init__(self, drives: dict[str, Tensor], noise: dict[str, Tensor], like: Tensor):
        self.__dict__.update(drives)
        self._noise, self._like = noise, like

    def __getattr__(self, name: str) -> Tensor:
        """A drive that the equations mention and never use: it has no weights, and its value does not matter."""
        return torch.zeros_like(self._like)

    def __getitem__(self, name: str) -> Tensor:
        return self._noise[name]


class _Products:
    """`U`: `U.NAME(v)` multiplies v by that matrix."""

    def __init__(self, matrices: dict[str, Tensor]):
        for name, matrix in matrices.items():
            setattr(self, name, self._product(matrix))

    def __getattr__(self, name: str) -> Callable[[Tensor], Tensor]:
        """A product that the equations mention and never use."""
        return torch.zeros_like

    @staticmethod
    def _product(matrix: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda v: linear(v.to(matrix.dtype), matrix)  # where() of two numbers has torch's default dtype


class Eager:
    name = "eager"

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int:
        """Last: it runs everything, and nothing runs slower."""
        return 0

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support:
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
        if lengths is None:
            return self._loop(cell, weights, x, initial, [x.shape[1]] * len(x), record)
        # longest first: the sequences that are still running are then the first ones, and only they take a step
        order = lengths.argsort(descending=True, stable=True)
        back = order.argsort()
        running = [int((lengths > t).sum()) for t in range(len(x))]
        noise = {name: mask if mask.shape[1] == 1 else mask[:, order] for name, mask in weights.noise.items()}
        sorted_initial = tuple(history[:, order] for history in initial)
        run = self._loop(cell, replace(weights, noise=noise), x[:, order], sorted_initial, running, True)
        assert run.states is not None
        states = [sequence[:, back] for sequence in run.states]
        final = tuple(
            last_values(torch.cat([first, s]), len(first), lengths) for first, s in zip(initial, states, strict=True)
        )
        return Run(states[0], final, tuple(states) if record else None)

    @staticmethod
    def _loop(
        cell: Cell, weights: Weights, x: Tensor, initial: tuple[Tensor, ...], running: Sequence[int], record: bool
    ) -> Run:
        """All steps; at step t the first `running[t]` batch rows take part and the others stand still."""
        graph = cell.graph
        T, B, H = len(x), x.shape[1], initial[0].shape[-1]
        # taken apart once: the gradient of each drive[t] would be as large as the drives of all steps
        drive = linear(x, weights.W, weights.b).unflatten(-1, (len(graph.drives), H)).unbind(0)
        noise = {name: mask.expand(T, B, H) for name, mask in weights.noise.items()}
        U = _Products({name: block(weights.U, graph.matrices, [name], H) for name in graph.matrices})
        gains = [weights.units[name] for name in graph.parameters if name not in cell.options]

        past: list[list[Tensor]] = [list(history.unbind(0)) for history in initial]
        for t, n in enumerate(running):
            if n == 0 and B:  # an empty batch takes its steps, so that gradients are zero and not missing
                for history in past:
                    history.append(history[-1])
                continue
            # a view of its own for each state: `ago` tells states apart by identity
            earlier = [
                [value[:n] for value in history[-len(first) :]] for history, first in zip(past, initial, strict=True)
            ]
            states = [values[-1].view_as(values[-1]) for values in earlier]
            step = _Drives(
                {name: part[:n] for name, part in zip(graph.drives, drive[t].unbind(1), strict=True)},
                {name: mask[t, :n] for name, mask in noise.items()},
                states[0],
            )
            with remember(list(zip(states, earlier, strict=True))), gains_in_order(iter(gains)):
                new = cell.call(step, U, states, weights.units)
            for history, old, value in zip(past, states, new, strict=True):
                value = _state_sized(value, old)
                history.append(value if n == B else torch.cat([value, history[-1][n:]]))

        sequences = [torch.stack(history[-T:]) for history in (past if record else past[:1])]
        final = tuple(torch.stack(history[-len(first) :]) for history, first in zip(past, initial, strict=True))
        return Run(sequences[0], final, tuple(sequences) if record else None)


def run_eagerly(
    cell: Cell,
    noise: Mapping[str, Tensor],
    lengths: Int[Tensor, " B"] | None,
    tensors: Sequence[Tensor],
    *,
    record: bool,
) -> list[Tensor]:
    """What another engine computed (outputs or states, then final values), by the plain loop, which has every derivative.
    The tensors are x, W, b, U, per-unit parameters and initial states."""
    x, W, b, U, *rest = tensors
    names = cell.graph.parameters
    weights = Weights(W, b, U, dict(zip(names, rest, strict=False)), noise)
    run = Eager().run(cell, weights, x, tuple(rest[len(names) :]), lengths, record=record)
    return [*(run.states or [run.outputs]), *run.final]


def _state_sized(value: Any, like: Tensor) -> Tensor:
    """A next state as a tensor of the state's size: equations may return a number, or a parameter of one unit each."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand_as(like)


def last_values(values: Float[Tensor, "N B H"], depth: int, lengths: Int[Tensor, " B"]) -> Float[Tensor, "K B H"]:
    """Of a state's initial and later values, the last `depth` before the true end of each sequence."""
    rows = lengths[None, :] + torch.arange(depth, device=lengths.device)[:, None]
    return values.gather(0, rows[:, :, None].expand(-1, -1, values.shape[-1]))
