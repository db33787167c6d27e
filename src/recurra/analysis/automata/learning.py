"""Learning an automaton by asking: the network is the teacher, which predicts a class after any string.

Kearns & Vazirani's algorithm (1994), as AALpy has it: each counterexample, a string on which the guess and the network differ,
adds a state. All guesses are kept, since the last of them may be mostly the network's own slips.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.errors import OptionError
from recurra.types import Int

NOWHERE = -2
"""The output where the network is not asked."""


def guesses(reading: Reading, strings: Int[Tensor, "N T"], most: int = 64) -> Iterator[Moore]:
    """Machines of more and more states, until none of the strings is a counterexample or there are `most` states.

    Of all counterexamples among the strings and their beginnings, the shortest is taken. A symbol that never follows a class
    in the strings is not asked about after it: where it leads is not known.
    """
    try:
        from aalpy.base import SUL, Oracle
        from aalpy.learning_algs import run_KV
    except ImportError:
        raise OptionError(
            "learning by asking needs AALpy: pip install 'recurra[automata]'. Or use the quotient."
        ) from None

    predictions = reading.predictions(strings)
    follows = set(zip(predictions[:, :-1].flatten().tolist(), strings.flatten().tolist(), strict=True))
    found: list[Moore] = []

    class Asked(SUL):  # type: ignore[misc]
        """The network, asked for one string at a time; states after their beginnings are cached, with the predictions there."""

        def __init__(self) -> None:
            super().__init__()
            self.known: dict[tuple[int, ...], tuple[Tensor, int]] = {(): (reading.start[None], int(predictions[0, 0]))}

        def pre(self) -> None:
            self.string: tuple[int, ...] = ()

        def post(self) -> None:
            pass

        def step(self, letter: int | None) -> int:
            if letter is not None:
                (state, before), self.string = self.known[self.string], (*self.string, letter)
                if self.string not in self.known:
                    there = reading.step(state, torch.tensor([letter]))
                    now = int(reading.predict(there)[0]) if (before, letter) in follows else NOWHERE
                    self.known[self.string] = (there, now)
            return self.known[self.string][1]

    class Compared(Oracle):  # type: ignore[misc]
        """Keeps each guess, and looks for the shortest counterexample."""

        def find_cex(self, hypothesis: Any) -> tuple[int, ...] | None:
            guess = _machine(reading, hypothesis)
            found.append(guess)
            outputs = reading.outputs_of(guess, strings)
            wrong = (outputs != predictions) & (predictions >= 0)
            for t, row in torch.nonzero(wrong.T).tolist() if guess.size < most else []:
                string = tuple(strings[row, :t].tolist())
                if self.sul.query(string)[-1] != int(outputs[row, t]):  # alone, it may be rounded otherwise
                    return string
            return None

    network, alphabet = Asked(), list(range(len(reading.symbols)))
    run_KV(alphabet, network, Compared(alphabet, network), "moore", cache_and_non_det_check=False, print_level=0)
    return iter(found)


def _machine(reading: Reading, hypothesis: Any) -> Moore:
    """A guess without the state that stands for nowhere."""
    first = hypothesis.initial_state
    states = [first, *(each for each in hypothesis.states if each is not first and each.output != NOWHERE)]
    place = {each.state_id: k for k, each in enumerate(states)}
    after = [[place.get(each.transitions[k].state_id, -1) for k in range(len(reading.symbols))] for each in states]
    return reading.make_machine(after, [each.output for each in states])
