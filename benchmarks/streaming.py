"""One LSTM that reads single numbers one by one, at batch 1, beside torch's modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recurra.benchmarks.timing import repeat, time_in_turn
from recurra.layers.recurrent import Recurrent
from recurra.layers.stepper import Stepper
from recurra.results import Result, Table

LIMIT = 1e-4
"""How far the stepper may be from the layer in float32, as norm of the difference to norm of the value."""

CALLS = 200
"""Steps in one measurement of a runner that is called for each of them."""


@dataclass(frozen=True)
class Streaming(Result):
    """The error of the stepper against the layer, and microseconds of one step of each runner; none where it disagrees."""

    hidden_size: int
    error: float
    microseconds: dict[str, float]

    @property
    def agrees(self) -> bool:
        return self.error <= LIMIT

    def table(self) -> Table:
        rows = [[name, f"{each:.2f}"] for name, each in self.microseconds.items()]
        return Table(
            ["", "µs a step"],
            rows or [[f"DISAGREES: off by {self.error:.0e}", ""]],
            f"streaming, lstm, batch 1, H = {self.hidden_size}",
        )

    def to_json(self) -> dict[str, Any]:
        rows = [{"name": name, "us_per_step": each} for name, each in self.microseconds.items()]
        return {"cell": "lstm", "H": self.hidden_size, "agrees": self.agrees, "error": self.error, "rows": rows}


def bench_streaming(*, hidden_size: int = 32, steps: int = 4800, repeats: int = 15) -> Streaming:
    """Compare the stepper with the layer on all steps at once, then time it beside `nn.LSTMCell` and `nn.LSTM`."""
    layer = Recurrent("lstm", 1, hidden_size)
    module, lstm_cell = layer.to_torch(), nn.LSTMCell(1, hidden_size)
    x = torch.randn(steps, 1)
    with torch.inference_mode():
        stepper = Stepper(layer)
        expected = layer(x[None]).outputs[0]
        streamed = stepper.chunk(x)
        stepper.reset()
        single = torch.stack([stepper.step(x[t]).clone() for t in range(64)])
        error = max(_distance(streamed, expected), _distance(single, expected[:64]))
        if not error <= LIMIT:
            return Streaming(hidden_size, error, {})
        one, state = x[:1].clone(), (torch.zeros(1, hidden_size), torch.zeros(1, hidden_size))
        first, batch = x[0].clone(), x[:1, None].clone()
        calls: dict[str, Callable[[], Any]] = {
            "Stepper.chunk": lambda: stepper.chunk(x),
            "Stepper.step": lambda: repeat(lambda: stepper.step(first), CALLS),
            "nn.LSTMCell": lambda: repeat(lambda: lstm_cell(one, state), CALLS),
            "nn.LSTM, one step a call": lambda: repeat(lambda: module(batch), CALLS),
        }
        times = time_in_turn(calls, repeats)
    taken = {name: each.median / (steps if name == "Stepper.chunk" else CALLS) for name, each in times.items()}
    return Streaming(hidden_size, error, {name: 1e6 * each for name, each in taken.items()})


def _distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())
