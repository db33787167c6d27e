"""The plain loop in PyTorch: the equations as they stand, step by step. Every other engine is tested against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recurra.cells.graph import block
from recurra.cells.notation import Cell, gains_in_order, remember
from recurra.engines.protocol import YES, Answer, Run, Weights
from recurra.types import Float, Int, Shape


class _Drives:
    """`x` at one step: `x.NAME` is that drive, `x[NAME]` that mask."""

    def __init__(self, drives: dict[str, Tensor], noise: dict[str, Tensor]):
        self.__dict__.update(drives)
        self._noise = noise

    def __getitem__(self, name: str) -> Tensor:
        return self._noise[name]


class _Products:
    """`U`: `U.NAME(v)` multiplies v by that matrix."""

    def __init__(self, matrices: dict[str, Tensor]):
        for name, matrix in matrices.items():
            setattr(self, name, self._product(matrix))

    @staticmethod
    def _product(matrix: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda v: linear(v, matrix)


class Eager:
    name = "eager"

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Answer:
        return YES

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run:
        graph = cell.graph
        T, B, H = len(x), x.shape[1], initial[0].shape[-1]
        drive = linear(x, weights.W, weights.b).unflatten(-1, (len(graph.drives), H))
        noise = {name: mask.expand(T, B, H) for name, mask in weights.noise.items()}
        U = _Products({name: block(weights.U, graph.matrices, [name], H) for name in graph.matrices})
        gains = [weights.units[name] for name in graph.parameters if name not in cell.options]

        past: list[list[Tensor]] = [list(history.unbind(0)) for history in initial]
        for t in range(T):
            step = _Drives(
                {name: drive[t, :, k] for k, name in enumerate(graph.drives)},
                {name: mask[t] for name, mask in noise.items()},
            )
            # a view of its own for each state: `ago` tells states apart by identity
            states = [history[-1].view_as(history[-1]) for history in past]
            with remember(list(zip(states, past, strict=True))), gains_in_order(iter(gains)):
                new = cell.call(step, U, states, weights.units)
            for history, old, value in zip(past, states, new, strict=True):
                value = _state_sized(value, old)
                # past its end a sequence stands still, so that nothing there can overflow into a gradient
                history.append(value if lengths is None else torch.where((t < lengths)[:, None], value, old))

        sequences = [torch.stack(history[-T:]) for history in (past if record else past[:1])]
        final = tuple(_last(history, len(first), lengths) for history, first in zip(past, initial, strict=True))
        return Run(sequences[0], final, tuple(sequences) if record else None)


def _state_sized(value: Any, like: Tensor) -> Tensor:
    """A next state as a tensor of the state's size: equations may return a number, or a parameter of one unit each."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand_as(like)


def _last(history: Sequence[Tensor], depth: int, lengths: Tensor | None) -> Float[Tensor, "K B H"]:
    """The last `depth` values of a state: those before the true end of each sequence."""
    if lengths is None or depth == 1:
        return torch.stack(list(history[-depth:]))
    values = torch.stack(list(history))
    rows = lengths[None, :] + torch.arange(depth, device=lengths.device)[:, None]
    return values.gather(0, rows[:, :, None].expand(-1, -1, values.shape[-1]))
