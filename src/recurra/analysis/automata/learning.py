"""Learning an automaton by asking: the network is the teacher, which names a class after any string.

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


def guesses(reading: Reading, strings: Int[Tensor, "N T"], most: int = 64) -> Iterator[Moore]:
    """Machines of more and more states, until none of the strings is a counterexample or there are `most` states.

    Of all counterexamples among the strings and their beginnings, the shortest is taken.
    """
    try:
        from aalpy.base import SUL, Oracle
        from aalpy.learning_algs import run_KV
    except ImportError:
        raise OptionError(
            "learning by asking needs AALpy: pip install 'recurra[automata]'. Or use the quotient."
        ) from None

    class Asked(SUL):  # type: ignore[misc]
        """The network, asked for one string at a time; states of their beginnings are kept."""

        def __init__(self) -> None:
            super().__init__()
            self.states: dict[tuple[int, ...], Tensor] = {(): reading.start[None]}

        def pre(self) -> None:
            self.string: tuple[int, ...] = ()

        def post(self) -> None:
            pass

        def step(self, letter: int | None) -> int:
            if letter is not None:
                before, self.string = self.states[self.string], (*self.string, letter)
                if self.string not in self.states:
                    self.states[self.string] = reading.step(before, torch.tensor([letter]))
            if not self.string and not reading.speaks_first:
                return -1
            return int(reading.says(self.states[self.string])[0])

    said = reading.listen(strings)
    found: list[Moore] = []

    class Compared(Oracle):  # type: ignore[misc]
        """Keeps each guess, and looks for the shortest counterexample."""

        def find_cex(self, hypothesis: Any) -> tuple[int, ...] | None:
            place = {state.state_id: k for k, state in enumerate(_first(hypothesis))}
            after = [
                [place[state.transitions[k].state_id] for k in range(len(reading.symbols))]
                for state in _first(hypothesis)
            ]
            guess = reading.make_machine(after, [state.output for state in _first(hypothesis)])
            found.append(guess)
            wrong = (reading.spoken(guess, strings) != said) & (said >= 0)
            if guess.size >= most or not bool(wrong.any()):
                return None
            t = int(wrong.any(0).long().argmax())
            row = int(wrong[:, t].long().argmax())
            return tuple(strings[row, :t].tolist())

    network, alphabet = Asked(), list(range(len(reading.symbols)))
    run_KV(alphabet, network, Compared(alphabet, network), "moore", cache_and_non_det_check=False, print_level=0)
    return iter(found)


def _first(hypothesis: Any) -> list[Any]:
    """The states of a guess, the first one first."""
    return [hypothesis.initial_state, *(state for state in hypothesis.states if state is not hypothesis.initial_state)]
