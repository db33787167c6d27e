"""The robot: a trained network operates the washing machine in closed loop.

The robot presses buttons (external triggers) and waits for the machine's own ones (water level, timer). It knows its wishes,
Start before Program m before Power, and asks the network alone which of them would do something now: it imagines each button
and looks whether the predicted state changes. It presses the first that would. Where none would, it takes the machine to be at
work, and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from recurra.analysis.jacobians import StepMap
from recurra.data.machine import NAMES, PROGRAMS, TRIGGERS, Machine
from recurra.errors import OptionError
from recurra.results import Result, Table
from recurra.types import Float

INTERNAL = ("Level", "Timer")
"""The machine fires these by itself; nobody has a button for them."""
PATIENCE = 40
"""Moments that a wash may take: the longest needs 3 buttons and 9 triggers of the machine."""


class Operator(Protocol):
    """What the robot asks of a network."""

    def does_something(self, trigger: str) -> bool:
        """Whether the network expects the machine to move if this is fired now."""

    def read(self, trigger: str) -> None:
        """A trigger was fired."""

    @property
    def belief(self) -> str:
        """The state that the network takes the machine to be in."""


class NetworkOperator:
    """A network that reads triggers one by one and predicts the machine's state after each.

    - `F`, `x`: its step, and the vector `[K, D]` of each of `TRIGGERS`. `readout`: outputs of the last layer to the scores of
      states.
    """

    def __init__(self, F: StepMap, x: Float[Tensor, "K D"], readout: Any):
        self.F, self.x, self.readout = F, x.to(F.dtype), readout
        self.state = F(F.start[None], self.x[:1])  # a moment at which nothing happens: then there is a prediction

    @torch.no_grad()
    def _predicted(self, s: Float[Tensor, "1 S"]) -> str:
        return NAMES[int(self.readout(self.F.outputs(s))[0, : len(NAMES)].argmax())]

    def _after(self, trigger: str) -> Float[Tensor, "1 S"]:
        return self.F(self.state, self.x[TRIGGERS.index(trigger)][None])

    @property
    def belief(self) -> str:
        return self._predicted(self.state)

    def does_something(self, trigger: str) -> bool:
        return self._predicted(self._after(trigger)) != self.belief

    def read(self, trigger: str) -> None:
        self.state = self._after(trigger)


@dataclass(frozen=True)
class Moment:
    """One moment of the robot's work.

    - `action`: the button that it pressed, or `wait`. `trigger`: what was fired: the button, or the machine's own trigger; `none`
      where the machine was waiting too. `state`: of the machine afterwards. `belief`: what the network predicts it to be.
      `mistake`: in words; empty where there is none.
    """

    program: int
    action: str
    trigger: str
    state: str
    belief: str
    mistake: str = ""


@dataclass(frozen=True)
class RobotWork(Result):
    """Washes that a robot ran.

    - `moments`: everything that happened. `finished`: the programs that were washed from Off to Off. `asked`: those that were
      wanted.
    """

    asked: tuple[int, ...]
    finished: tuple[int, ...]
    moments: tuple[Moment, ...]

    @property
    def mistakes(self) -> int:
        """Buttons that did nothing, and waits for a machine that was itself waiting."""
        return sum(bool(moment.mistake) for moment in self.moments)

    @property
    def misread(self) -> int:
        """Moments after which the network takes the machine to be in a state that it is not in."""
        return sum(moment.belief != moment.state for moment in self.moments)

    def table(self) -> Table:
        rows = [
            (str(each.program), each.action, each.trigger, each.state, each.belief, each.mistake)
            for each in self.moments
        ]
        return Table(("program", "action", "trigger", "state", "network's belief", "mistake"), rows, str(self))

    def __str__(self) -> str:
        return (
            f"{len(self.finished)} of {len(self.asked)} washes finished in {len(self.moments)} moments; "
            f"{self.mistakes} mistakes, {self.misread} states misread."
        )

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"mistakes": self.mistakes, "misread": self.misread, "summary": str(self)}


def operate(operator: Operator, programs: Sequence[int] = tuple(range(1, PROGRAMS + 1))) -> RobotWork:
    """Wash with each program in turn, from Off to Off. A wash that takes too long is given up, and ends the work.

    ```python
    run = rc.train("washing-machine", steps=20, hidden_size=16)
    print(run.robot(programs=[1, 4]))
    ```
    """
    for program in programs:
        if program not in range(1, PROGRAMS + 1):
            raise OptionError(f"program {program} does not exist; the machine has 1 to {PROGRAMS}.")
    machine, moments, finished = Machine(), [], []
    for program in programs:
        started = False
        for _ in range(PATIENCE):
            wishes = ("Start", f"Program {program}", "Power")
            action = next((wish for wish in wishes if operator.does_something(wish)), "wait")
            trigger = next((each for each in machine.valid if each in INTERNAL), "none") if action == "wait" else action
            mistake = _mistake(machine, action, trigger, program)
            machine = machine.after(trigger)
            started = started or machine.name == "Soak"
            operator.read(trigger)
            moments.append(Moment(program, action, trigger, machine.name, operator.belief, mistake))
            if started and machine.name == "Off":
                break
        if not (started and machine.name == "Off"):
            break
        finished.append(program)
    return RobotWork(tuple(programs), tuple(finished), tuple(moments))


def _mistake(machine: Machine, action: str, trigger: str, program: int) -> str:
    if trigger == "none":
        return f"waits, and the machine is {machine.name} and waits too"
    if action != "wait" and action not in machine.valid and machine.after(action) == machine:
        return f"presses {action}, which does nothing in {machine.name}"
    if action == "Power" and machine.name != "Off":
        return "switches the machine off before it has washed"
    return ""
