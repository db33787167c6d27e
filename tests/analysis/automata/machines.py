"""Stand-ins for networks: a machine that is read as if it were one, with slips of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading

PERIOD = 1009


class Slipping(Reading):
    """A machine that names another class now and then: whenever a number that depends on all that was read is small.

    Its state is that of the machine, and that number, which takes `PERIOD` values: to the last slip it has thousands of states.
    """

    def __init__(
        self, machine: Moore, draw: Callable[[int, int], Tensor], *, slips: float = 0.0, predicts_first: bool = True
    ):
        self.machine, self.truth, self.slips = machine, machine, slips
        self.symbols, self.classes = machine.symbols, tuple(dict.fromkeys(name for name in machine.outputs if name))
        self.draw = self.draw_test = draw
        self.predicts_first, self.is_language, self.predicts_next = predicts_first, False, False
        self.start = torch.tensor([0, PERIOD - 1])
        self.table = torch.tensor(machine.after)
        self.voices = torch.tensor([self.classes.index(name) for name in machine.outputs if name])

    def step(self, s: Tensor, symbol: Tensor) -> Tensor:
        return torch.stack([self.table[s[:, 0], symbol], (s[:, 1] * 31 + symbol * 17 + 7) % PERIOD], dim=1)

    def predict(self, s: Tensor) -> Tensor:
        slips = s[:, 1] < self.slips * PERIOD
        return (self.voices[s[:, 0]] + slips) % len(self.classes)
