"""Whether exported C computes what the model does: the same inputs through the plain loop, in float32 and in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recurra.errors import EngineError
from recurra.export.agreement import cast, draw_inputs, in_dtype
from recurra.export.c_library import CLibrary
from recurra.export.c_numbers import rounded
from recurra.export.evaluate import run_network
from recurra.export.network import Network

LIMIT = 1e-5
"""How far C may be from the model: the largest difference, divided by the largest output if that is above 1."""
LEEWAY = 4
"""Where float32 alone is further off (a chaotic cell amplifies rounding), C may be this many times as far as the plain loop."""


@dataclass(frozen=True)
class Agreement:
    """How far C is from the model, and how far the plain loop in float32 is from itself in float64: largest differences.

    - `excess`: the largest share of what is allowed that C has used up by any step. What is allowed grows with the steps
      where float32 loses its way; so a cell that amplifies rounding is still held to the limit as long as it does not.
    """

    steps: int
    error: float
    plain: float
    excess: float

    @property
    def holds(self) -> bool:
        return self.excess <= 1


def draw_stream(network: Network, steps: int, seed: int) -> dict[str, Tensor]:
    """Random inputs of one sequence; where a network knows gaps, also one in the middle."""
    found = draw_inputs(network, 1, steps, torch.Generator().manual_seed(seed))
    for value in network.values:
        if value.kind == "known":
            found[value.arguments[0].name][0, steps // 2] = float("nan")
    return cast(found, torch.float32)


def run_plain(network: Network, inputs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The outputs `[T, size]` of the plain loop in that dtype."""
    outputs, _ = run_network(in_dtype(network, dtype), cast(inputs, dtype))
    return {name: value[0] for name, value in outputs.items()}


def run_c(library: CLibrary, inputs: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """The outputs of the C code: all steps in one call, after some in calls of their own, which must be the same."""
    arrays = {name: value[0].numpy() for name, value in inputs.items()}
    library.reset()
    singles = []
    for t in range(min(steps, 16)):
        now = {
            port.name: arrays[port.name] if port.is_whole else arrays[port.name][t] for port in library.source.inputs
        }
        singles.append(library.step(now))
    library.reset()
    outputs = library.chunk(arrays, steps)
    for name, values in outputs.items():
        if not np.array_equal(values[: len(singles)], np.stack([each[name] for each in singles]), equal_nan=True):
            raise EngineError("export to C: step and chunk disagree. Please report it.")
    return {name: torch.from_numpy(values) for name, values in outputs.items()}


def compare(library: CLibrary, network: Network, *, steps: int = 256, int8: bool = False, seed: int = 0) -> Agreement:
    """The agreement of C with the model on random inputs."""
    inputs = draw_stream(network, steps, seed)
    stored = rounded(network) if int8 else network
    by_dtype = {dtype: run_plain(stored, inputs, dtype) for dtype in (torch.float32, torch.float64)}
    found = run_c(library, inputs, steps)
    error = distance(found, by_dtype[torch.float64 if network.dtype == torch.float64 else torch.float32])
    plain = distance(by_dtype[torch.float32], by_dtype[torch.float64])
    excess = float((error / (LEEWAY * plain).clamp_min(LIMIT)).nan_to_num(float("inf")).max())
    return Agreement(steps, float(error[-1]), float(plain[-1]), excess)


def distance(found: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> Tensor:
    """By each step `[T]`, the largest difference so far of all outputs, divided by the largest output where that is above 1;
    inf from where on one has a number and the other NaN or ±inf."""
    worst: list[Tensor] = []
    for name, expected in exact.items():
        expected, got = expected.double(), found[name].double()
        finite = expected.isfinite()
        scale = expected[finite].abs().max().clamp_min(1.0) if bool(finite.any()) else 1.0
        off = torch.where(finite, (got - expected).abs() / scale, 0.0)
        worst.append(torch.where(finite == got.isfinite(), off, float("inf")).amax(-1))
    return torch.stack(worst).amax(0).cummax(0).values


def loss_of_int8(network: Network, *, steps: int = 256, seed: int = 0) -> float:
    """What 8 bits change of the outputs on random inputs, as norm of the difference to norm of the outputs."""
    inputs = draw_stream(network, steps, seed)
    exact = run_plain(network, inputs, torch.float64)
    small = run_plain(rounded(network), inputs, torch.float64)
    a, b = (torch.cat([value.flatten() for value in each.values()]) for each in (exact, small))
    return float((a - b).norm() / a.norm().clamp_min(1e-30))
