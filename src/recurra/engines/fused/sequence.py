"""What the fused engine does with a whole sequence on any device, before and after its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from recurra.engines.fused.stages import Plan
from recurra.engines.protocol import Run, Weights
from recurra.errors import EngineError


def with_contiguous_rows(x: Tensor) -> Tensor:
    """`x` itself unless the numbers of a row are scattered in memory."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def whole_masks(weights: Weights, H: int) -> dict[str, Tensor]:
    """The masks of a run with a number for each unit, as kernels read them."""
    return {name: mask.expand(*mask.shape[:2], H).contiguous() for name, mask in weights.noise.items()}


def mask_arguments(masks: Mapping[str, Tensor]) -> dict[str, Tensor | int]:
    """Each mask with its distances from step to step and from lane to lane; 0 along an axis that it does not have."""
    arguments: dict[str, Tensor | int] = {}
    for name, mask in masks.items():
        arguments[f"n_{name}"] = mask
        arguments[f"n_{name}_step"] = mask.stride(0) if mask.shape[0] > 1 else 0
        arguments[f"n_{name}_lane"] = mask.stride(1) if mask.shape[1] > 1 else 0
    return arguments


def as_run(results: Sequence[Tensor], states: int, *, record: bool) -> Run:
    """What a sequence gave: the values of every state at each step, or of the first alone, then the final values of all."""
    steps = tuple(results[: states if record else 1])
    return Run(steps[0], tuple(results[len(steps) :]), steps if record else None)


def arriving_gradients(
    grads: Sequence[Tensor | None], states: int, *, record: bool
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """What arrives at each state, at every step and at its end; without `record` only the first state's steps were given out."""
    if torch.is_grad_enabled():
        raise EngineError("engine 'fused' has no second derivatives (create_graph=True). Use engine='eager' for them.")
    given = grads[:states] if record else [grads[0], *[None] * (states - 1)]
    arriving = [None if grad is None else with_contiguous_rows(grad) for grad in given]
    return arriving, [None if grad is None else grad.contiguous() for grad in grads[len(grads) - states :]]


def final_values(state: Tensor, T: int, lengths: Tensor | None) -> Tensor:
    """The last K values of a state: those before the true end of each sequence."""
    K = len(state) - T
    if lengths is None:
        return state[T:].clone()
    rows = lengths[None, :] + torch.arange(K, device=lengths.device)[:, None]
    return state.gather(0, rows[:, :, None].expand(-1, -1, state.shape[-1]))


def recurrent_gradient(
    plan: Plan,
    gradient: Tensor,
    states: Sequence[Tensor],
    computed: Mapping[int, Tensor],
    U: Tensor,
    gather: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """∂L/∂U: for each group one large product over all of time."""
    graph, H, T = plan.graph, U.shape[1], len(gradient)
    by_name = {state.name: (state.depth, value) for state, value in zip(graph.states, states, strict=True)}
    total = torch.zeros_like(U)
    for group, place, number in zip(plan.groups, plan.places, plan.arguments, strict=True):
        if number is not None:
            argument = computed[number]
        else:
            depth, value = by_name[group.argument.name]
            start = depth - group.argument.delay
            argument = value[start : start + T]
        adjoint = gradient[:, :, place * H : (place + len(group.names)) * H]
        part = gather(adjoint, argument)
        if len(plan.groups) == 1 and group.names == graph.matrices:
            return part
        for k, name in enumerate(group.names):
            row = graph.matrices.index(name) * H
            total[row : row + H] += part[k * H : (k + 1) * H]
    return total
