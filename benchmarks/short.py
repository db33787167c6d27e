"""Calls of few steps on a CPU: an LSTM beside `nn.LSTM`, a loop over `nn.LSTMCell` and a loop by hand, agreement first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recurra.benchmarks import rivals, timing
from recurra.benchmarks.cells import LIMITS
from recurra.benchmarks.rivals import Runner, Values
from recurra.benchmarks.timing import Say, Spread, quiet, repeat, seconds, time_in_turn
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.results import Result, Table
from recurra.types import Float, Shape

OURS = "recurra"

WHILE = 1e-3
"""How long the calls of one measurement take together, in seconds."""


@dataclass(frozen=True)
class Short(Result):
    """Microseconds of a call of each runner at one size, `forward` without gradients or `training`; none where it disagrees."""

    shape: Shape
    what: str
    error: float
    microseconds: dict[str, Spread]

    @property
    def agrees(self) -> bool:
        return self.error <= LIMITS[torch.float32]  # false for NaN

    @property
    def ratio(self) -> float:
        """How many times as fast as the fastest rival."""
        times = {name: spread.median for name, spread in self.microseconds.items()}
        ours = times.pop(OURS, math.nan)
        return min(times.values(), default=math.nan) / ours


@dataclass(frozen=True)
class ShortCalls(Result):
    """All sizes on one machine."""

    machine: dict[str, Any]
    rows: tuple[Short, ...]

    @property
    def agrees(self) -> bool:
        return all(row.agrees for row in self.rows)

    def table(self) -> Table:
        names = list(dict.fromkeys(name for row in self.rows for name in row.microseconds))
        cells = []
        for row in self.rows:
            B, T, _, H = row.shape
            times = [str(row.microseconds[name]) if row.agrees else "" for name in names]
            cells.append([f"{B}, {T}, {H}", row.what, *times, f"{row.ratio:.2f}" if row.agrees else "DISAGREES"])
        title = f"µs of a call, medians (quartiles), {self.machine['threads']} threads"
        return Table(["B, T, H", "", *names, "× fastest rival"], cells, title)

    def __str__(self) -> str:
        slower = [row for row in self.rows if row.agrees and row.ratio < 1]
        least = min((row.ratio for row in self.rows if row.agrees), default=math.nan)
        return f"{self.table()}\n{len(slower)} of {len(self.rows)} rows are slower than a rival; the lowest ratio is {least:.2f}"

    def to_json(self) -> dict[str, Any]:
        rows = [row.to_json() | {"agrees": row.agrees, "ratio": row.ratio} for row in self.rows]
        return {"machine": self.machine, "rows": rows, "agrees": self.agrees}


def bench_short(
    steps: Sequence[float] = (1, 2, 4, 8, 16, 32),
    rows: Sequence[float] = (1, 2, 8, 32),
    sizes: Sequence[float] = (64, 256),
    *,
    repeats: int = 15,
    threads: int = 0,
    say: Say = quiet,
) -> ShortCalls:
    """Time calls of `steps` steps of `rows` batch rows; inputs are as wide as the layer."""
    wrong = [each for each in (*steps, *rows, *sizes) if each < 1 or each != int(each)]
    if wrong:
        raise OptionError(f"steps, rows and sizes are whole numbers from 1 on; got {wrong[0]:g}.")
    with timing.threads(threads) as count:
        machine = timing.describe_machine("cpu", count)
        shapes = [Shape(int(B), int(T), int(H), int(H)) for H in sizes for T in steps for B in rows]
        return ShortCalls(machine, tuple(row for shape in shapes for row in _time(shape, repeats, say)))


def _time(shape: Shape, repeats: int, say: Say) -> list[Short]:
    B, T, D, H = shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = Recurrent("lstm", D, H)
        x, weight = torch.randn(B, T, D), torch.randn(B, T, H)
    module = rivals.torch_runner(layer, x, weight)
    assert module is not None
    runners = [rivals.engine_runner(layer, "auto", x, weight, OURS), module, _cells_runner(layer, x, weight)]
    runners.append(rivals.loop_runner(layer, x, weight))
    error = _distance(runners)
    found = []
    for what in ("forward", "training"):
        say(f"{what} {B}x{T}x{H}")
        calls: dict[str, Callable[[], Any]] = {
            each.name: each.forward if what == "forward" else each.train for each in runners
        }
        for call in calls.values():
            call()
        several = {name: max(1, round(WHILE / min(seconds(call) for _ in range(3)))) for name, call in calls.items()}
        times = time_in_turn({name: partial(repeat, call, several[name]) for name, call in calls.items()}, repeats)
        found.append(Short(shape, what, error, {name: times[name] * (1e6 / several[name]) for name in calls}))
    return found


def _distance(runners: Sequence[Runner]) -> float:
    """How far the outputs and gradients of inputs are apart, at most."""
    first, *others = [each.read(each.train()) for each in runners]
    names = ("outputs", "gradient of inputs")
    found = [(first[name] - other[name]).norm() / other[name].norm() for other in others for name in names]
    return float(torch.stack(found).max())  # NaN if one is


def _cells_runner(layer: Recurrent, x: Float[Tensor, "B T D"], weight: Float[Tensor, "B T H"]) -> Runner:
    """A loop over `nn.LSTMCell` with the layer's weights, time first."""
    module, cell = layer.to_torch(), nn.LSTMCell(layer.input_size, layer.hidden_size)
    for name, value in cell.named_parameters():
        value.data = getattr(module, f"{name}_l0").detach().clone()
    inputs, cotangent = x.transpose(0, 1).contiguous().requires_grad_(), weight.transpose(0, 1).contiguous()
    parameters = list(cell.parameters())

    def outputs() -> Tensor:
        state: Any = None
        found = []
        for one in inputs.unbind():
            state = cell(one, state)
            found.append(state[0])
        return torch.stack(found) if len(found) > 1 else found[0][None]

    def forward() -> Tensor:
        with torch.no_grad():
            return outputs()

    def train() -> tuple[Tensor, ...]:
        y = outputs()
        return y, *torch.autograd.grad(y, [inputs, *parameters], cotangent, materialize_grads=True)

    def read(found: tuple[Tensor, ...]) -> Values:
        outputs, gradient = (value.detach().transpose(0, 1) for value in found[:2])
        return {"outputs": outputs, "gradient of inputs": gradient}

    return Runner("nn.LSTMCell", forward, train, read)
