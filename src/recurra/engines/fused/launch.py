"""A kernel prepared for one size: what a run needs besides addresses is computed once, then packed into one structure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct

from torch import Tensor

from recurra.engines.fused.kernels import Kernel
from recurra.engines.fused.memory import Buffer
from recurra.engines.protocol import weight_shapes

GIVEN = 1
"""Stands for an address in a structure that only asks for sizes."""


class Launch:
    """Forward and backward of a kernel at one size. Tensors must have contiguous rows; `None` is one that is not there.

    - `shapes`: of the states that leave the engine (the first `seen`), with their earlier values; the others lie in what is kept.
    - `kept`: how many numbers the forward run keeps for the backward run.
    """

    def __init__(self, kernel: Kernel, T: int, B: int, D: int, H: int, seen: int, threads: int):
        self.kernel, self.sizes = kernel, (T, B, D, H, threads)
        graph = kernel.plan.graph
        self.depths = tuple(state.depth for state in graph.states)
        self.weight_shapes = weight_shapes(graph, D, H)
        self.final = tuple((depth, B, H) for depth in self.depths)
        self.shapes = tuple((depth + T, B, H) for depth in self.depths[:seen])
        sizes = {"T": T, "B": B, "D": D, "H": H, "threads": threads}
        forward, backward = kernel.Forward(**sizes), kernel.Backward(**sizes)
        for k in range(len(self.shapes)):
            forward.state[k] = backward.state[k] = GIVEN
        self.kept = kernel.kept_memory(forward)
        self.forward_scratch, self.backward_scratch = kernel.forward_scratch(forward), kernel.backward_scratch(backward)
        # numbers that are left 0 between what both runs are given and what is their own
        self._units, self._noises = max(1, len(graph.parameters)), 3 * max(1, len(graph.noises))
        self._placed = (0,) * (3 + max(1, len(kernel.plan.groups)))
        self._hidden = (0,) * (len(self.depths) - len(self.shapes))
        arguments = len({number for number in kernel.plan.arguments if number is not None})
        self._own = (0,) * (3 + max(1, arguments))
        self._other_states, self._no_units = (0,) * (3 * len(self.depths) - 3), (0,) * self._units
        self._rest = (*self._hidden, *[0] * (self._units + self._noises + 3), *self._placed)  # of a run without either
        self._pack_forward = Struct(f"{_words(forward)}q").pack
        self._pack_backward = Struct(f"{_words(backward)}q").pack

    def forward(
        self,
        tensors: Sequence[Tensor],
        units: Sequence[Tensor],
        initial: Sequence[Tensor],
        masks: Sequence[Tensor],
        lengths: Tensor | None,
        states: Sequence[Tensor],
        final: Sequence[Tensor],
        memory: int,
    ) -> None:
        """All steps: `states` and `final` are written. `memory`: where to put what the backward run needs; 0: nowhere."""
        keeps = memory != 0
        scratch = Buffer(self.forward_scratch + (0 if memory else self.kept), self.kernel.dtype)
        if not memory:
            memory = scratch.address + self.forward_scratch * self.kernel.dtype.itemsize
        given = self._common(tensors, units, masks, lengths, states, memory, scratch.address, keeps)
        first = [number for value in initial for number in _rows(value)]
        self.kernel.forward(self._pack_forward(*given, *first, *(value.data_ptr() for value in final)))

    def forward_unmasked(
        self,
        x: Sequence[int],
        W: Tensor,
        b: Tensor,
        U: Tensor,
        first: Sequence[int],
        values: Tensor,
        final: Sequence[Tensor],
        memory: int = 0,
    ) -> None:
        """`forward` of a cell without per-unit parameters, masks and lengths. `x`, `first`: where their rows lie."""
        kernel = self.kernel
        scratch = Buffer(self.forward_scratch + (0 if memory else self.kept), kernel.dtype)
        at, (_, _, D, H, _) = scratch.address, self.sizes
        kept = memory or at + self.forward_scratch * kernel.dtype.itemsize
        weights = (W.data_ptr(), D, b.data_ptr(), U.data_ptr(), H)
        ends = [value.data_ptr() for value in final]
        kernel.forward(
            self._pack_forward(*self.sizes, 0, kept, at, *x, *weights, values.data_ptr(), *self._rest, *first, *ends)
        )

    def backward_unmasked(
        self,
        x: Sequence[int],
        W: Tensor,
        b: Tensor,
        U: Tensor,
        values: Tensor,
        memory: int,
        arriving: Sequence[int],
        final: Sequence[int],
        d_x: Sequence[int],
        gradients: Sequence[int],
        of_states: Sequence[int],
    ) -> None:
        """Its `backward`. `arriving`, `d_x`: rows; `final`, `gradients` (of W, b, U), `of_states`: addresses."""
        scratch = Buffer(self.backward_scratch, self.kernel.dtype)
        _, _, D, H, _ = self.sizes
        weights = (W.data_ptr(), D, b.data_ptr(), U.data_ptr(), H)
        given = (*self.sizes, 0, memory, scratch.address, *x, *weights, values.data_ptr(), *self._rest)
        self.kernel.backward(
            self._pack_backward(
                *given,
                *arriving,
                *self._other_states,
                *final,
                *d_x,
                *gradients,
                *self._no_units,
                *of_states,
                *self._own,
            )
        )

    def backward(
        self,
        tensors: Sequence[Tensor],
        units: Sequence[Tensor],
        masks: Sequence[Tensor],
        lengths: Tensor | None,
        states: Sequence[Tensor],
        memory: int,
        arriving: Sequence[Tensor | None],
        final: Sequence[Tensor | None],
        gradients: Sequence[Tensor | None],
    ) -> None:
        """The adjoint of all steps; `gradients` (of x, W, b, U, units, initial states) are written where they are wanted."""
        scratch = Buffer(self.backward_scratch, self.kernel.dtype)
        given = self._common(tensors, units, masks, lengths, states, memory, scratch.address, True)
        there = [number for value in arriving for number in _rows(value)]
        d_x, d_W, d_b, d_U, *rest = gradients
        of_units, of_states = rest[: len(units)], rest[len(units) :]
        self.kernel.backward(
            self._pack_backward(
                *given,
                *there,
                *map(_address, final),
                *_rows(d_x),
                *map(_address, (d_W, d_b, d_U)),
                *_padded(map(_address, of_units), self._units),
                *map(_address, of_states),
                *self._own,
            )
        )

    def _common(
        self,
        tensors: Sequence[Tensor],
        units: Sequence[Tensor],
        masks: Sequence[Tensor],
        lengths: Tensor | None,
        states: Sequence[Tensor],
        memory: int,
        scratch: int,
        keeps: bool,
    ) -> list[int]:
        x, W, b, U = tensors
        addresses: list[int] = [0] if lengths is None else [lengths.data_ptr()]
        addresses += (memory, scratch, *_rows(x), W.data_ptr(), W.stride(0), b.data_ptr(), U.data_ptr(), U.stride(0))
        addresses += (state.data_ptr() for state in states)
        addresses += self._hidden
        addresses += _padded((value.data_ptr() for value in units), self._units)
        if masks:
            T, B, _, H, _ = self.sizes
            addresses += (number for mask in masks for number in _rows(mask.expand(T, B, H)))
        else:
            addresses += (0, 0, 0)
        return [*self.sizes, *addresses, int(keeps), 0, 0, *self._placed]


launch = lru_cache(maxsize=1024)(Launch)
"""The launch of a kernel at a size, prepared once."""


def _words(structure: object) -> int:
    return len(memoryview(structure).cast("B")) // 8  # type: ignore[arg-type]


def _rows(value: Tensor | None) -> tuple[int, int, int]:
    """Where the numbers of each step and batch row lie."""
    if value is None:
        return 0, 0, 0
    step, row, _ = value.stride()
    return value.data_ptr(), step, row


def _address(value: Tensor | None) -> int:
    return 0 if value is None else value.data_ptr()


def _padded(numbers: Iterable[int], count: int) -> list[int]:
    """An array in C has at least one element."""
    return list(numbers) or [0] * count
