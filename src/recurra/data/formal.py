"""Formal languages: strings with the class of every prefix, drawn from the smallest automaton that tells the classes apart.

Tomita's seven languages (Tomita 1982) are the classic test of what a recurrent network can learn from short strings. Dyck's
are brackets that close in order, here to a bounded depth, so that they have a finite automaton too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.types import Int

BRACKETS = ("()", "[]", "{}", "<>")
MOST_STATES = 10_000


@dataclass(frozen=True)
class FormalLanguage:
    """A language as its minimal automaton. State 0 is where strings begin.

    - `after`: by state and symbol, the next state.
    - `outputs`: by state, the number of the class of a string that ends there; the last class is "in the language".

    ```python
    strings, classes, lengths = tomita(4).draw(count=64, length=20, seed=0)
    ```
    """

    name: str
    symbols: tuple[str, ...]
    classes: tuple[str, ...]
    after: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]

    @property
    def start(self) -> int:
        """The number of the sign that every string begins with: after it a network outputs the class of the empty string."""
        return len(self.symbols)

    def labels(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T"]:
        """The class of every prefix. The sign of the start changes nothing, wherever it stands."""
        after = torch.tensor([[*row, state] for state, row in enumerate(self.after)])
        outputs, now = torch.tensor(self.outputs), torch.zeros(len(strings), dtype=torch.int64)
        found = torch.empty_like(strings)
        for t, column in enumerate(strings.unbind(1)):
            now = after[now, column]
            found[:, t] = outputs[now]
        return found

    def draw(
        self, count: int, length: int, seed: int = 0, *, exactly: bool = False
    ) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"], Int[Tensor, " N"]]:
        """Strings of up to `length` symbols, each after its sign; the class of every prefix; how many steps are true.

        The first half is in the language, every string of a length as likely. Of the second half, one part is drawn uniformly
        from all that are not, one part are near misses: strings of the language with one symbol changed.

        - `exactly`: all are of this length, whatever their class where there is no choice; otherwise lengths are drawn
          uniformly from those up to `length` that there are.
        """
        if count < 1 or length < 0:
            raise OptionError(f"{self.name}: count must be at least 1, length at least 0; got {count} and {length}.")
        random = np.random.default_rng(seed % 2**64)
        inside, half = np.array(self.outputs) == len(self.classes) - 1, (count + 1) // 2
        ways = np.stack([self._ways(length, ends) for ends in (inside, ~inside)])
        sizes = np.full(count, length)
        for rows, possible in ((slice(half), ways[0, :, 0]), (slice(half, count), ways[1, :, 0])):
            if not exactly and possible.any():
                sizes[rows] = random.choice(np.flatnonzero(possible), len(sizes[rows]))
        good, bad = self._walk(ways, sizes, random)
        K = len(self.symbols)
        place = (random.random(count) * sizes).astype(np.int64)[:, None] == np.arange(length)
        near = np.where(place, (good + random.integers(1, K, (count, 1))) % K, good)
        strings = np.full((3, count, length + 1), self.start)
        strings[:, :, 1:] = np.where(np.arange(length) < sizes[:, None], np.stack([good, bad, near]), self.start)
        inputs = torch.from_numpy(strings.reshape(-1, length + 1))
        labels = self.labels(inputs).view(3, count, length + 1)
        missed = (labels[2, :, -1] != len(self.classes) - 1) & (torch.arange(count) % 2 == 1)
        which = torch.where(torch.arange(count) < half, 0, 1 + missed.long()), torch.arange(count)
        return inputs.view(labels.shape)[which], labels[which], torch.from_numpy(sizes + 1)

    def _ways(self, length: int, ends: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """By steps that are left and by state: how many strings lead to one of some states, up to a factor for each row."""
        ways, after = [ends.astype(float)], np.array(self.after)
        for _ in range(length):
            more = ways[-1][after].sum(1)
            ways.append(more / max(1.0, more.max()))  # they are as many as 2^length
        return np.stack(ways)

    def _walk(
        self, ways: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64], random: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Of each of several `ways`, strings of these sizes that end where they lead; any string where none does."""
        after, kinds = np.array(self.after), np.arange(len(ways))[:, None]
        strings = np.zeros((len(ways), len(sizes), ways.shape[1] - 1), dtype=np.int64)
        now = np.zeros(strings.shape[:2], dtype=np.int64)
        possible = ways[kinds, sizes, 0] > 0
        for t in range(strings.shape[2]):
            left = np.maximum(sizes - t - 1, 0)
            shares = np.where(possible[..., None], ways[kinds[..., None], left[:, None], after[now]], 1.0).cumsum(-1)
            drawn = random.random((*now.shape, 1)) * shares[..., -1:]
            strings[..., t] = (drawn >= shares).sum(-1).clip(max=len(self.symbols) - 1)
            now = after[now, strings[..., t]]
        return strings


TOMITA: dict[int, tuple[str, str, str]] = {
    1: ("only ones", "1·", "10 11"),
    2: ("10 again and again", "1··", "21 02 22"),
    3: ("no odd run of ones right before an odd run of zeros", "11·1·", "01 20 34 21 44"),
    4: ("no 000", "111·", "10 20 30 33"),
    5: ("an even number of zeros and of ones", "1···", "12 03 30 21"),
    6: ("as many zeros as ones, but for a multiple of 3", "1··", "12 20 01"),
    7: ("0…01…10…01…1: at most four runs, the first of zeros", "1111·", "01 21 23 43 44"),
}
"""Tomita's languages: in words, which states accept, and where 0 and 1 lead from each state."""


def tomita(number: int) -> FormalLanguage:
    """One of Tomita's seven languages over 0 and 1.

    ```python
    strings, classes, lengths = rc.data.tomita(4).draw(count=64, length=20, seed=0)     # no three zeros in a row
    ```
    """
    if number not in TOMITA:
        raise OptionError(f"Tomita's languages are numbered 1 to 7; got {number}.")
    _, accepts, table = TOMITA[number]
    return FormalLanguage(
        f"Tomita {number}",
        ("0", "1"),
        ("no", "yes"),
        tuple(tuple(int(state) for state in row) for row in table.split()),
        tuple(int(sign == "1") for sign in accepts),
    )


def dyck(kinds: int, depth: int) -> FormalLanguage:
    """Brackets of some kinds that close in order, no more than `depth` of them open at a time.

    A prefix is closed, open, or broken for good. A state is what is open, 1 + k + k² + … + kᵈ of them, or the broken one.

    ```python
    strings, classes, lengths = rc.data.dyck(kinds=2, depth=3).draw(count=64, length=20, seed=0)
    ```
    """
    if not 1 <= kinds <= len(BRACKETS):
        raise OptionError(f"there are 1 to {len(BRACKETS)} kinds of brackets; got {kinds}.")
    if not 1 <= depth <= MOST_STATES or sum(kinds**d for d in range(depth + 1)) > MOST_STATES:
        raise OptionError(f"depth is at least 1, for at most {MOST_STATES:,} states of {kinds} kinds; got {depth}.")
    stacks = [stack for size in range(depth + 1) for stack in product(range(kinds), repeat=size)]
    place = {stack: state for state, stack in enumerate(stacks)}
    broken = len(stacks)
    after = []
    for stack in stacks:
        opened = [place.get((*stack, kind), broken) for kind in range(kinds)]
        closed = [place[stack[:-1]] if stack and stack[-1] == kind else broken for kind in range(kinds)]
        after.append(tuple(state for pair in zip(opened, closed, strict=True) for state in pair))
    return FormalLanguage(
        f"Dyck-{kinds} to depth {depth}",
        tuple("".join(BRACKETS[:kinds])),
        ("broken", "open", "closed"),
        (*after, (broken,) * (2 * kinds)),
        (*(1 if stack else 2 for stack in stacks), 0),
    )
