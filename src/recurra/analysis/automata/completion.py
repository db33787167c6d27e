"""What strings alone leave open: the first state of a machine that has no output there, and transitions that no string took."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.types import Int


def with_known_start(machine: Moore, strings: Int[Tensor, "N T"]) -> list[Moore]:
    """A machine whose first state has no output, and the one that begins in the state that leads most like it instead.

    One slip of the network on a rare first symbol makes a state of its own of the first; the choice between the two is left to
    the strings that choose.
    """
    if machine.outputs[0] is not None or machine.size < 2:
        return [machine]
    firsts = torch.bincount(strings[:, 0], minlength=len(machine.symbols))
    after = torch.tensor(machine.after)
    alike = (((after[1:] == after[0]) | (after[0] < 0)) * firsts).sum(1)
    return [machine.started(1 + int(alike.argmax())), machine]


def completed(machine: Moore, reading: Reading, strings: Int[Tensor, "N T"]) -> Moore:
    """The machine with the transitions that no string took: the network is asked which state it is in after them.

    It is recognised by the strings that tell the machine's states apart. A symbol that never follows a class in the strings
    is not asked about after it; where it leads stays open.
    """
    predictions = reading.predictions(strings)
    follows = set(zip(predictions[:, :-1].flatten().tolist(), strings.flatten().tolist(), strict=True))
    access, classes = (
        machine.access(),
        [-1 if name is None else reading.classes.index(name) for name in machine.outputs],
    )
    asked = [
        (state, k)
        for state, row in enumerate(machine.after)
        for k, then in enumerate(row)
        if then < 0 and (classes[state], k) in follows
    ]
    if not asked:
        return machine
    tests = {()} | {
        string
        for one, other in combinations(range(machine.size), 2)
        if (string := _from(machine, one).difference(_from(machine, other))) is not None
    }
    after = [list(row) for row in machine.after]
    states = torch.cat([reading.visit(torch.tensor([[*access[state], k]]))[:, -1] for state, k in asked])
    answers = torch.stack([reading.after(states, test) for test in tests], dim=1)
    own = torch.tensor([[_output(machine, classes, state, test) for test in tests] for state in range(machine.size)])
    alike = ((answers[:, None] == own) | (own < 0)[None]).sum(-1)
    for (state, k), then in zip(asked, alike.argmax(1).tolist(), strict=True):
        after[state][k] = then
    return replace(machine, after=tuple(tuple(row) for row in after)).minimised()


def _from(machine: Moore, state: int) -> Moore:
    """The machine that begins in another state, its states not renumbered but for the two."""
    place = {state: 0, 0: state}
    rows = [tuple(place.get(then, then) for then in machine.after[place.get(k, k)]) for k in range(machine.size)]
    return replace(
        machine, after=tuple(rows), outputs=tuple(machine.outputs[place.get(k, k)] for k in range(machine.size))
    )


def _output(machine: Moore, classes: list[int], state: int, string: tuple[int, ...]) -> int:
    """The output after a string from some state, as the number of a class; −1 where that is not known."""
    for symbol in string:
        state = machine.after[state][symbol]
        if state < 0:
            return -1
    return classes[state]
