"""A network that reads symbols: its state after each, and the class that it predicts there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from recurra.analysis.automata.finite import Moore
from recurra.analysis.jacobians import StepMap
from recurra.layers.recurrent import Recurrent
from recurra.models.draws import draw_numbers
from recurra.types import Float, Int


class Reading:
    """What an automaton is extracted from.

    - `layer`, `x`: the recurrent layers, and the vector `[K, D]` of each of the K symbols that they read.
    - `readout`: outputs of the last layer to the scores of classes; only the first so many count as there are `classes`.
    - `draw`: a count and a seed to strings `[N, T]`, as in training; `draw_test`: as in its evaluation.
      None: strings of up to `length` symbols that the network samples itself, as a language model does. A string that ends
      before the others has −1 from there on; one without any −1 may have gone on.
    - `predicts_next`: the classes are what comes next, the symbols first and in their order; always so where the network
      samples its strings. `end`: the class that stands for the end of a string.
    - `opening`: symbols, by number in `x`, that are read before every string; they are not in `symbols`. Without any, the
      network predicts nothing before its first symbol.
    - `truth`: the machine that it should be, where that is known. It is compared with, never learned from.
    - `about`: in words, which part of the network's input a symbol leaves open, and what was put in its place.
    """

    def __init__(
        self,
        layer: Recurrent | None,
        x: Float[Tensor, "K D"],
        readout: Callable[[Tensor], Tensor],
        symbols: Sequence[str],
        classes: Sequence[str],
        draw: Callable[[int, int], Int[Tensor, "N T"]] | None = None,
        *,
        draw_test: Callable[[int, int], Int[Tensor, "N T"]] | None = None,
        opening: Sequence[int] = (),
        length: int = 100,
        truth: Moore | None = None,
        predicts_next: bool = False,
        end: int | None = None,
        about: str = "",
    ):
        self.x, self.readout = x.detach(), readout
        self.symbols, self.classes, self.truth = tuple(symbols), tuple(classes), truth
        self.is_language, self.length, self.end, self.about = draw is None, length, end, about
        self.predicts_next = predicts_next or draw is None
        self.draw = draw or self.sample
        self.draw_test = draw_test or self.draw
        self.predicts_first = len(opening) > 0
        if layer is None:  # whoever derives from this has a step of its own
            return
        self.layer, self.F = layer, StepMap(layer, x.dtype)
        s = self.F.start[None]
        for symbol in opening:
            s = self.step(s, torch.tensor([symbol]))
        self.start = s[0]

    @torch.no_grad()
    def step(self, s: Float[Tensor, "N S"], symbol: Int[Tensor, " N"]) -> Float[Tensor, "N S"]:
        """The state after one more symbol."""
        return self.F(s, self.x[symbol])

    def outputs(self, s: Float[Tensor, "N S"]) -> Float[Tensor, "N H"]:
        """What the readout reads in each state."""
        return self.F.outputs(s)

    @torch.no_grad()
    def scores(self, s: Float[Tensor, "N S"]) -> Float[Tensor, "N C"]:
        scores: Tensor = self.readout(self.outputs(s))
        return scores[..., : len(self.classes)]

    def predict(self, s: Float[Tensor, "N S"]) -> Int[Tensor, " N"]:
        """The number of the class that is predicted in each state."""
        return self.scores(s).argmax(-1)

    def sample(self, count: int, seed: int) -> Int[Tensor, "N T"]:
        """Strings of symbols that the network samples itself; −1 after their end."""
        random = torch.Generator().manual_seed(seed)
        s, drawn = self.start.expand(count, -1), []
        goes_on = torch.ones(count, dtype=torch.bool)
        drawable = [*range(len(self.symbols)), *([] if self.end is None else [self.end])]
        for _ in range(self.length):
            chances = self.scores(s)[:, drawable].softmax(-1)
            symbol = draw_numbers(chances, random)
            goes_on = goes_on & (symbol < len(self.symbols))
            drawn.append(symbol.where(goes_on, -1))
            s = self.step(s, drawn[-1])
        return torch.stack(drawn, dim=1)

    def inside(self, strings: Int[Tensor, "N T"]) -> Tensor:
        """Where there is a prediction, `[N, T + 1]`: not past a string's end, and perhaps not before its first symbol."""
        return pad(strings >= 0, (1, 0), value=self.predicts_first)

    def true(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"] | None:
        """The targets: the true machine's outputs, or what comes next in the strings; −1 where there is no prediction or no
        target. `None` where neither is known, or the network sampled the strings itself."""
        if self.truth is not None:
            return self.outputs_of(self.truth, strings).where(self.inside(strings), -1)
        if self.is_language or not self.predicts_next:
            return None
        following = strings.where(strings >= 0, -1 if self.end is None else self.end)
        return pad(following, (0, 1), value=-1).where(self.inside(strings), -1)

    def visit(self, strings: Int[Tensor, "N T"]) -> Float[Tensor, "N T1 S"]:
        """The state before the first symbol and after each; past a string's end, any."""
        states = [self.start.expand(len(strings), -1)]
        for column in strings.unbind(1):
            states.append(self.step(states[-1], column))
        return torch.stack(states, dim=1)

    def predictions(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"]:
        """The class that is predicted before the first symbol and after each; −1 where there is no prediction."""
        s = self.start.expand(len(strings), -1)
        found = [self.predict(s)]
        for column in strings.unbind(1):
            s = self.step(s, column)
            found.append(self.predict(s))
        return torch.stack(found, dim=1).where(self.inside(strings), -1)

    def after(self, s: Float[Tensor, "N S"], string: Sequence[int]) -> Int[Tensor, " N"]:
        """The class that is predicted when a string follows each state."""
        for symbol in string:
            s = self.step(s, torch.full((len(s),), symbol))
        return self.predict(s)

    def make_machine(self, after: Sequence[Sequence[int]], outputs: Sequence[int]) -> Moore:
        """The minimal machine over this network's symbols and classes; −1: no output."""
        names = tuple(self.classes[k] if k >= 0 else None for k in outputs)
        return Moore(self.symbols, tuple(tuple(row) for row in after), names).minimised()

    def outputs_of(self, machine: Moore, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"]:
        """A machine's outputs as numbers of classes; −1 where it has none, or the transition is not known."""
        numbers = torch.tensor([-1 if name is None else self.classes.index(name) for name in machine.outputs] + [-1])
        return numbers[machine.walk(strings)]
