"""A network as a state machine: the attractors in which it rests, and to which of them a trigger takes it from each.

A trigger is read for one step; then the resting input is held until the state stands still. Nothing is assumed about how many
states there are: they are found from the first one, by trying every trigger in each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.analysis.automata.finite import Machine
from recurra.analysis.jacobians import StepMap
from recurra.types import Float, Int

STILL = 1e-10
"""A step that moves every unit by less than this, relative to its size, stands still."""
SAME = 1e-5
"""States that stand still closer than this, relative to their size, are one: contraction leaves a little way to go."""


@dataclass(frozen=True)
class Automaton:
    """States and transitions of a network.

    - `states`: attractors under the resting input; the first is where it rests from its initial state.
    - `after`: by state and trigger, the number of the next state; −1 where it stands still nowhere, or at no attractor.
    - `radii`: the size of the largest eigenvalue at each state; less than 1, and the smaller the faster it is restored.
    """

    states: Float[Tensor, "A S"]
    after: Int[Tensor, "A K"]
    radii: Float[Tensor, " A"]

    @property
    def is_complete(self) -> bool:
        return len(self.states) > 0 and bool((self.after >= 0).all())


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
def extract_automaton(
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
    machine = extract_automaton(F, triggers, resting, start)
    machine.after[0, 2]         # where the third trigger leads from the first state
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
