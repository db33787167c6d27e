"""Finite state machines: run, minimised, compared. Moore machines have outputs of states, Mealy machines of transitions.

A machine need not be complete: where a transition is not known, the next state is −1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.results import Result, Table
from recurra.types import Int


@dataclass(frozen=True)
class Machine(Result, ABC):
    """States and transitions. State 0 is the first.

    - `symbols`: what is read, by name. `after`: by state and symbol the next state, or −1.
    """

    symbols: tuple[str, ...]
    after: tuple[tuple[int, ...], ...]

    @abstractmethod
    def output(self, state: int) -> Hashable:
        """The output of a state, or of all transitions from it."""

    @abstractmethod
    def taken(self, order: Sequence[int], after: tuple[tuple[int, ...], ...]) -> Self:
        """The machine of these states alone, with other transitions."""

    @abstractmethod
    def differs(self, state: int, other: Self, its: int) -> int | None:
        """−1 if two states differ in their outputs, the first symbol on whose transition they do, or `None`."""

    @property
    def is_complete(self) -> bool:
        return all(then >= 0 for row in self.after for then in row)

    @property
    def size(self) -> int:
        return len(self.after)

    def walk(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"]:
        """The state before the first symbol and after each one; −1 from where it is lost, or the string ends."""
        lost = (-1,) * (len(self.symbols) + 1)
        table = torch.tensor(
            [*((*row, -1) for row in self.after), lost]
        )  # the last row and the last column are −1's own
        states = torch.zeros(len(strings), strings.shape[1] + 1, dtype=torch.int64)
        for t, column in enumerate(strings.unbind(1)):
            states[:, t + 1] = table[states[:, t], column]
        return states

    def minimised(self) -> Self:
        """The smallest machine that behaves alike, its states in the order in which symbols lead to them.

        Classes are split until every state of a class leads to the same classes (Moore 1956). A state is not merged with
        one that leads somewhere where it leads nowhere.
        """
        reached = self.reached()
        classes = _numbered([self.output(state) for state in reached])
        while True:
            place = dict(zip(reached, classes, strict=True)) | {-1: -1}
            finer = _numbered([(place[state], *(place[then] for then in self.after[state])) for state in reached])
            if max(finer) == max(classes):
                break
            classes = finer
        first = {place[state]: state for state in reversed(reached)}  # of each class the state that is reached first
        order = [first[k] for k in range(len(first))]
        return self.taken(order, tuple(tuple(place[then] for then in self.after[state]) for state in order))

    def started(self, state: int) -> Self:
        """The machine that begins in another state, as small as it can be."""
        order = [state, *(k for k in range(self.size) if k != state)]
        place = {old: new for new, old in enumerate(order)} | {-1: -1}
        return self.taken(order, tuple(tuple(place[then] for then in self.after[old]) for old in order)).minimised()

    def reached(self) -> list[int]:
        """The states that symbols lead to, in the order in which they do: breadth first."""
        found = [0]
        for state in found:  # it grows while it is read
            found += [then for then in dict.fromkeys(self.after[state]) if then >= 0 and then not in found]
        return found

    def difference(self, other: Self) -> tuple[int, ...] | None:
        """The shortest string after which the outputs differ; `None` if there is none where both know the transitions."""
        if self.symbols != other.symbols:
            raise OptionError(f"machines that read {self.symbols} and {other.symbols} cannot be compared.")
        waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
        seen = {(0, 0)}
        for mine, its, string in waiting:  # it grows while it is read
            at = self.differs(mine, other, its)
            if at is not None:
                return string if at < 0 else (*string, at)
            for k, (then, there) in enumerate(zip(self.after[mine], other.after[its], strict=True)):
                if then >= 0 and there >= 0 and (then, there) not in seen:
                    seen.add((then, there))
                    waiting.append((then, there, (*string, k)))
        return None

    def access(self) -> dict[int, tuple[int, ...]]:
        """The shortest string to each state that there is one to."""
        found: dict[int, tuple[int, ...]] = {0: ()}
        for state in self.reached():
            for k, then in enumerate(self.after[state]):
                if then >= 0:
                    found.setdefault(then, (*found[state], k))
        return found

    def spell(self, string: Sequence[int]) -> str:
        """A string in words; ε if it is empty."""
        names = [self.symbols[k] for k in string]
        return ("" if all(len(name) == 1 for name in names) else " ").join(names) or "ε"

    @property
    def unknown(self) -> int:
        """How many transitions are not known."""
        return sum(then < 0 for row in self.after for then in row)

    @abstractmethod
    def state_names(self) -> list[str]:
        """A name for each state, no two alike."""

    def table(self) -> Table:
        names = self.state_names()
        rows = [(names[k], *(names[then] if then >= 0 else "?" for then in row)) for k, row in enumerate(self.after)]
        return Table(("state", *map(shown, self.symbols)), rows)


@dataclass(frozen=True)
class Moore(Machine):
    """`outputs`: by state. The first may have none (`None`): then it is merged with one that leads alike.

    ```python
    odd = rc.analysis.Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
    odd.minimised().size                                     # 2
    odd.difference(rc.analysis.Moore(("0", "1"), ((0, 0),), ("even",)))     # (1,): after 1 it is odd
    ```
    """

    outputs: tuple[str | None, ...]

    def output(self, state: int) -> Hashable:
        return self.outputs[state]

    def taken(self, order: Sequence[int], after: tuple[tuple[int, ...], ...]) -> Self:
        return replace(self, after=after, outputs=tuple(self.outputs[state] for state in order))

    def differs(self, state: int, other: Self, its: int) -> int | None:
        here, there = self.outputs[state], other.outputs[its]
        return -1 if here is not None and there is not None and here != there else None

    def minimised(self) -> Self:
        small = super().minimised()
        if small.outputs[0] is not None or any(0 in row for row in small.after):
            return small
        for state in range(1, small.size):
            pairs = zip(small.after[0], small.after[state], strict=True)
            if all(mine in (then, -1) for mine, then in pairs):
                return small.started(state)
        return small

    def answers(self) -> Mealy:
        """The Mealy machine whose transitions have the outputs of the states that they lead to; it may be smaller."""
        outputs = [[self.outputs[then] if then >= 0 else None for then in row] for row in self.after]
        return Mealy(self.symbols, self.after, tuple(tuple(row) for row in outputs)).minimised()

    def state_names(self) -> list[str]:
        """The output of each state, with a number where several have the same."""
        outputs = [name or "start" for name in self.outputs]
        count, seen = Counter(outputs), Counter[str]()
        names = []
        for name in outputs:
            seen[name] += 1
            names.append(f"{name} {seen[name]}" if count[name] > 1 else name)
        return names

    def to_json(self) -> dict[str, Any]:
        return {"symbols": list(self.symbols), "says": list(self.outputs), "after": [list(row) for row in self.after]}


@dataclass(frozen=True)
class Mealy(Machine):
    """`outputs`: by state and symbol; `None` where the transition is not known."""

    outputs: tuple[tuple[str | None, ...], ...]

    def output(self, state: int) -> Hashable:
        return self.outputs[state]

    def state_names(self) -> list[str]:
        return [str(state) for state in range(self.size)]

    def taken(self, order: Sequence[int], after: tuple[tuple[int, ...], ...]) -> Self:
        return replace(self, after=after, outputs=tuple(self.outputs[state] for state in order))

    def differs(self, state: int, other: Self, its: int) -> int | None:
        pairs = enumerate(zip(self.outputs[state], other.outputs[its], strict=True))
        return next((k for k, (here, there) in pairs if None not in (here, there) and here != there), None)

    def to_json(self) -> dict[str, Any]:
        outputs = [list(row) for row in self.outputs]
        return {"symbols": list(self.symbols), "says": outputs, "after": [list(row) for row in self.after]}


def shown(symbol: str) -> str:
    """A symbol's name as one can read it in a list: in quotation marks where it is blank, a comma or cannot be printed."""
    return symbol if symbol.isprintable() and symbol.strip() == symbol not in ("", ",") else repr(symbol)


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """Equal values get equal numbers, in the order in which they first come."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]
