"""A network as a state machine: its attractors under a resting input, and which of them each trigger leads to from each.

The network reads a trigger for one step, then the resting input until its state stands still. The number of states need not be
known: the search begins at the first one and tries every trigger in each state that it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Machine
from recurra.analysis.jacobians import StepMap
from recurra.results import Result, Table
from recurra.types import Float, Int

STILL = 1e-10
"""A step that moves every unit by less than this, relative to its size, stands still."""
SAME = 1e-5
"""States that stand still closer than this, relative to their size, are one: contraction leaves a little way to go."""
DRAWN = 40
"""Steps of rest that the path of a transition shows."""


@dataclass(frozen=True, eq=False)
class Transition:
    """From one attractor to another: the triggers that lead along it, by number, and the states on the path of the first."""

    start: int
    to: int
    triggers: tuple[int, ...]
    path: Float[Tensor, "T S"]


@dataclass(frozen=True, eq=False)
class Automaton(Result):
    """States and transitions of a network.

    - `states`: attractors under the resting input; the first is where it rests from its initial state.
    - `after`: by state and trigger, the number of the next state; −1 where it stands still nowhere, or at no attractor.
    - `radii`: the size of the largest eigenvalue at each state; less than 1, and the smaller the faster it is restored.
    - `transitions`: from each state to another one. `names`, `triggers`: of the states and of the triggers; see `named`.
    """

    states: Float[Tensor, "A S"]
    after: Int[Tensor, "A K"]
    radii: Float[Tensor, " A"]
    transitions: tuple[Transition, ...] = ()
    names: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return len(self.states) > 0 and bool((self.after >= 0).all())

    @property
    def lost(self) -> int:
        """How many pairs of a state and a trigger lead to no attractor."""
        return int((self.after < 0).sum())

    def named(self, names: Sequence[str], triggers: Sequence[str]) -> Automaton:
        """The same automaton with names of its states and triggers, in place of their numbers."""
        return replace(self, names=tuple(names), triggers=tuple(triggers))

    def name_of(self, s: Float[Tensor, " S"]) -> str | None:
        """The name of a state that stands still, if it is one of these."""
        distance = (self.states - s).norm(dim=1)
        closest = int(distance.argmin())
        return self.names[closest] if float(distance[closest]) < 1e-4 * (1 + float(s.norm())) else None

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "from": self.names[each.start],
                "triggers": [self.triggers[k] for k in each.triggers],
                "to": self.names[each.to],
            }
            for each in self.transitions
        ]

    def table(self) -> Table:
        rows = [(row["from"], ", ".join(row["triggers"]), row["to"]) for row in self._rows()]
        return Table(("from", "triggers", "to"), rows, str(self))

    def __str__(self) -> str:
        if not self.names:
            return "as a state machine: it comes to rest nowhere."
        return (
            f"as a state machine: {len(self.names)} states ({', '.join(self.names)}); {len(self.transitions)} transitions "
            f"between them, {self.lost} of {self.after.numel()} triggers lead to no attractor."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "states": list(self.names),
            "largest_eigenvalue": float(self.radii.max()) if len(self.radii) else None,
            "transitions": self._rows(),
            "lost": self.lost,
            "summary": str(self),
        }

    def arrays(self) -> dict[str, Tensor]:
        return {"states": self.states, "after": self.after}


@torch.no_grad()
def rest(
    F: StepMap, x: Float[Tensor, " D"], s: Float[Tensor, "N S"], steps: int = 5000
) -> tuple[Float[Tensor, "N S"], Tensor]:
    """Hold the input until every row stands still, or for so many steps; the states, and which of them stand still."""
    held = x.to(F.dtype)[None]
    still = torch.zeros(len(s), dtype=torch.bool)
    for _ in range(steps):
        after = F(s, held)
        still = (after - s).abs().amax(1) <= STILL * (1 + s.abs().amax(1))
        s = after
        if bool(still.all()):
            break
    return s, still


@torch.no_grad()
def find_attractors(
    F: StepMap,
    triggers: Float[Tensor, "K D"],
    resting: Float[Tensor, " D"],
    start: Float[Tensor, " S"],
    *,
    steps: int = 5000,
    most: int = 64,
) -> Automaton:
    """Every state that triggers lead to from `start`, with a rest of up to `steps` after each; no more than `most` states.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("gru", 3, 8))
    machine = rc.analysis.find_attractors(F, torch.eye(3), torch.zeros(3), F.start)
    machine.after               # by attractor and trigger, the attractor that it leads to
    ```
    """
    triggers, resting = triggers.to(F.dtype), resting.to(F.dtype)
    known: list[Tensor] = []
    radii: list[float] = []

    def number(s: Tensor, stands: bool) -> int:
        """Of this state among those that are known, with it if it is a new attractor; −1 otherwise."""
        for k, other in enumerate(known):
            if float((other - s).norm()) < SAME * (1 + float(other.norm())):
                return k
        if not stands or len(known) >= most:
            return -1
        radius = float(torch.linalg.eigvals(F.step(s[None], resting[None]).state[0]).abs().max())
        if radius >= 1:
            return -1
        known.append(s)
        radii.append(radius)
        return len(known) - 1

    first, still = rest(F, resting, start.to(F.dtype)[None], steps)
    number(first[0], bool(still[0]))
    rows: list[list[int]] = []
    while len(rows) < len(known):
        ends, still = rest(F, resting, F(known[len(rows)].expand(len(triggers), -1), triggers), steps)
        rows.append([number(s, bool(stands)) for s, stands in zip(ends, still, strict=True)])
    return Automaton(
        torch.stack(known) if known else torch.empty(0, F.size, dtype=F.dtype),
        torch.tensor(rows, dtype=torch.int64).view(len(rows), len(triggers)),
        torch.tensor(radii, dtype=F.dtype),
        _transitions(F, known, rows, triggers, resting),
        tuple(str(k) for k in range(len(known))),
        tuple(str(k) for k in range(len(triggers))),
    )


def _transitions(
    F: StepMap, states: list[Tensor], after: list[list[int]], triggers: Tensor, resting: Tensor
) -> tuple[Transition, ...]:
    """All pairs of different attractors with a trigger between them, and the path that the first such trigger takes."""
    pairs = [(k, to) for k, row in enumerate(after) for to in sorted(set(row) - {k, -1})]
    if not pairs:
        return ()
    fired = [tuple(t for t, then in enumerate(after[k]) if then == to) for k, to in pairs]
    paths = [torch.stack([states[k] for k, _ in pairs])]
    paths.append(F(paths[0], triggers[[each[0] for each in fired]]))
    for _ in range(DRAWN):
        paths.append(F(paths[-1], resting[None]))
    return tuple(
        Transition(k, to, each, path)
        for (k, to), each, path in zip(pairs, fired, torch.stack(paths, dim=1), strict=True)
    )


def link_attractors(found: Automaton, machine: Machine) -> list[list[int]]:
    """For each state of a machine over the same triggers, the attractors to which the same strings lead as to it."""
    linked: list[set[int]] = [set() for _ in range(machine.size)]
    waiting = [(0, 0)] if len(found.states) else []
    for attractor, state in waiting:  # it grows while it is read
        if attractor in linked[state]:
            continue
        linked[state].add(attractor)
        pairs = zip(found.after[attractor].tolist(), machine.after[state], strict=True)
        waiting += [(then, there) for then, there in pairs if then >= 0 and there >= 0]
    return [sorted(each) for each in linked]
