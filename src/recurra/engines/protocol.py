"""What an engine is: a name, an answer to "can you run this?", and a run. Layers know nothing more about engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from recurra.cells.graph import Graph
from recurra.cells.notation import Cell
from recurra.types import Float, Int, Shape


@dataclass(frozen=True)
class Support:
    """Yes, with how in words where there are several ways, or no with the reason. True exactly when it is yes."""

    yes: bool
    reason: str = ""
    how: str = ""

    def __bool__(self) -> bool:
        return self.yes


YES = Support(True)


def no(reason: str) -> Support:
    return Support(False, reason)


@dataclass(frozen=True)
class Weights:
    """The tensors of one layer in one direction.

    - `W`, `b`: input weights and biases, a block of H rows for each drive of the graph, in its order.
    - `U`: recurrent weights, a block of H rows for each matrix of the graph, in its order (no rows: no products).
    - `units`: the per-unit parameters as the equations read them, `[H]` each.
    - `noise`: the masks of this run, `[T, B, H]` or broadcastable to it; empty for most cells.
    """

    W: Float[Tensor, "GH D"]
    b: Float[Tensor, " GH"]
    U: Float[Tensor, "PH H"]
    units: Mapping[str, Tensor] = field(default_factory=dict)
    noise: Mapping[str, Tensor] = field(default_factory=dict)


def weight_shapes(graph: Graph, D: int, H: int) -> tuple[tuple[int, ...], ...]:
    """Of `W`, `b` and `U`, for inputs of size D and H units."""
    return (len(graph.drives) * H, D), (len(graph.drives) * H,), (len(graph.matrices) * H, H)


@dataclass(frozen=True)
class Run:
    """What an engine gives back, time first. `outputs` past a sequence's end are unspecified; `final` is not.

    - `final[i]` is `[K, B, H]`: the last K values of state i, oldest first.
    - `states[i]` is `[T, B, H]`: state i after each step, if it was asked for.
    """

    outputs: Float[Tensor, "T B H"]
    final: tuple[Float[Tensor, "_K B H"], ...]
    states: tuple[Float[Tensor, "T B H"], ...] | None = None


class Engine(Protocol):
    """A way to run any cell that it supports.

    `priority` says how soon `auto` asks it: the highest number first. It depends on what is to be run where an engine is
    not always the faster one.

    `supports` must answer without running anything. `run` may rely on a yes, on inputs past a sequence's end being zero,
    and on lengths between 0 and T; it must leave the final state of a sequence as it was at its true end.
    """

    name: str

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int: ...

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support: ...

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "_K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run: ...


def needs_other_derivatives(grads: Sequence[Tensor | None]) -> bool:
    """Whether a backward run must be made of torch's operations: it is to be differentiated in turn (`create_graph=True`), or it
    is mapped over several gradients (`is_grads_batched=True`)."""
    mapped = torch._C._functorch.is_legacy_batchedtensor
    return torch.is_grad_enabled() or any(grad is not None and mapped(grad) for grad in grads)


def differentiate(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
    *,
    create_graph: bool = False,
) -> list[Tensor | None]:
    """The gradients of the inputs that are wanted, from those of what `function` makes of them. It is run again for this; with
    `create_graph` the inputs stay in the graph that they come from, and gradients can be differentiated in turn."""
    if not any(wanted):
        return [None] * len(inputs)
    with torch.enable_grad():
        given = [
            value if create_graph else value.detach().requires_grad_(want)
            for value, want in zip(inputs, wanted, strict=True)
        ]
        outputs = function(*given)
        reached = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if grad is not None and output.requires_grad
        ]
        asked = [value for value, want in zip(given, wanted, strict=True) if want]
        if not reached:
            return [None] * len(given)
        found = iter(
            torch.autograd.grad(
                [output for output, _ in reached],
                asked,
                [grad for _, grad in reached],
                create_graph=create_graph,
                allow_unused=True,
            )
        )
        return [next(found) if want else None for want in wanted]
