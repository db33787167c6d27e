"""Whether an exported file computes what the network computes: drawn inputs, the plain loop in float32 and in float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recurra.export.evaluate import run_network
from recurra.export.network import Network, Value, state_slots

ALLOWED = 1e-5
"""How far an exported network may be off, relative to its values, in float32; or four times as far as the plain loop is."""
SIZES = ((1, 1), (3, 7), (5, 40))
"""Batch sizes and lengths that an exported network is tried at; the second chunk goes on from the states of the first."""


@dataclass(frozen=True)
class Trial:
    """Inputs and states before, and what must come out of them: outputs and states after, by name."""

    inputs: dict[str, Tensor]
    lengths: Tensor
    before: dict[str, Tensor]
    expected: dict[str, Tensor]
    sizes: dict[str, float]
    allowed: dict[str, float]

    def difference(self, found: Mapping[str, Tensor]) -> float:
        """The largest, relative to the size of the values where that is above 1."""
        return max((off / self.sizes[name] for name, off in self._off(found).items()), default=0.0)

    def agrees(self, found: Mapping[str, Tensor]) -> bool:
        return all(off <= self.allowed[name] for name, off in self._off(found).items())

    def _off(self, found: Mapping[str, Tensor]) -> dict[str, float]:
        """By how much each output and state differs at most."""
        return {
            name: float((found[name].double() - wanted.double()).abs().nan_to_num(float("inf")).max())
            for name, wanted in self.expected.items()
            if wanted.numel()
        }


def trials(network: Network, *, steps: bool, seed: int = 0) -> Iterator[Trial]:
    """Two chunks of sequences of each of `SIZES`; without `steps`, of one step each."""
    draw = torch.Generator().manual_seed(seed)
    precise = in_dtype(network, torch.float64)
    for B, T in SIZES:
        T = T if steps else 1
        lengths = torch.randint(1, T + 1, (B,), generator=draw)
        lengths[0] = T
        first = draw_inputs(network, B, T, draw)
        _, before = run_network(network, first, None, lengths)
        inputs = draw_inputs(network, B, T, draw)
        outputs, after = run_network(network, inputs, before, lengths)
        outputs_64, after_64 = run_network(precise, cast(inputs, torch.float64), cast(before, torch.float64), lengths)
        expected, exact = outputs | after, outputs_64 | after_64
        sizes, allowed = {}, {}
        for name, value in expected.items():
            sizes[name] = max(1.0, float(exact[name].abs().max()) if value.numel() else 0.0)
            own = float((value.double() - exact[name]).abs().max()) if value.numel() else 0.0
            allowed[name] = max(ALLOWED * sizes[name], 4 * own)
        yield Trial(inputs, lengths, before, expected, sizes, allowed)


def draw_inputs(network: Network, B: int, T: int, draw: torch.Generator) -> dict[str, Tensor]:
    """Random inputs of each kind, by name."""
    found: dict[str, Tensor] = {}
    S = T + 2  # the length of what another sequence gave
    for value in network.inputs:
        shapes = {"tokens": (B, T), "label": (B,), "vector": (B, value.size), "memory": (B, S, value.size)}
        shape = shapes.get(value.kind, (B, T, value.size))
        if value.kind in ("tokens", "label"):
            found[value.name] = torch.randint(value.size, shape, generator=draw)
        else:
            found[value.name] = torch.randn(shape, generator=draw, dtype=network.dtype)
        if value.kind == "memory":
            found["memory_lengths"] = torch.randint(1, S + 1, (B,), generator=draw)
    for value in network.values:
        if value.kind == "known":  # a gap, where the network knows what to do with one
            found[value.arguments[0].name][-1, -1, 0] = float("nan")
    return found


def cast(values: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Real numbers in another dtype; tokens as they are."""
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in values.items()}


def in_dtype(network: Network, dtype: torch.dtype) -> Network:
    """A copy that computes in another dtype, with masks at their mean."""
    made: dict[Value, Value] = {}
    for value in network.values:
        direction = value.direction
        made[value] = replace(
            value,
            arguments=tuple(made[each] for each in value.arguments),
            weights=cast(value.weights, dtype),
            direction=None if direction is None else copy.deepcopy(direction).to(dtype).eval(),
        )
    return Network({name: made[value] for name, value in network.outputs.items()})


def named_states(network: Network, way: str) -> list[str]:
    """The names of the states as an exported graph has them, `h_0_in` or `h_0_out`."""
    return [f"{slot.name}_{way}" for slot in state_slots(network)]
