"""The washing machine: a state machine that a network can learn from its log.

    Off ─Power→ Idle ─Program m→ Programmed ─Start→ Soak ─Level→ Rinse ─Timer→ Drain ─Timer→ Dry ─Timer→ Off
                                                      ↑──────Timer──────┘  as often as the program asks for

External triggers are buttons; internal ones are the water level and the timer. While a program runs, buttons do nothing. A
trigger that does nothing in a state is noise: a child that presses buttons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from
from recurra.types import Float, Int

NAMES = ("Off", "Idle", "Programmed", "Soak", "Rinse", "Drain", "Dry")
PROGRAMS = 6
TRIGGERS = ("none", "Power", *(f"Program {m}" for m in range(1, PROGRAMS + 1)), "Start", "Level", "Timer")
"""`none` is a moment at which nothing happens."""
VARIABLES = ("Power", "Program", "Program Start", "Timer Trigger", "Water Pump", "Water Level", "Outlet", "Spin")


def rounds_of(program: int) -> int:
    """How often a program soaks and rinses: 1, 2 or 3 times."""
    return (program + 1) // 2


@dataclass(frozen=True)
class Machine:
    """The machine at one moment: what it does, its program (0: none) and how many rounds are left."""

    name: str = "Off"
    program: int = 0
    rounds: int = 0

    def after(self, trigger: str) -> Machine:
        """The next state; the same one if the trigger does nothing here."""
        choose_from("trigger", trigger, TRIGGERS)
        match self.name, trigger:
            case "Off", "Power":
                return Machine("Idle")
            case (("Idle" | "Programmed"), "Power"):
                return Machine()
            case (("Idle" | "Programmed"), pressed) if pressed.startswith("Program "):
                return Machine("Programmed", int(pressed.split()[1]))
            case "Programmed", "Start":
                return Machine("Soak", self.program, rounds_of(self.program))
            case "Soak", "Level":
                return Machine("Rinse", self.program, self.rounds)
            case "Rinse", "Timer" if self.rounds > 1:
                return Machine("Soak", self.program, self.rounds - 1)
            case "Rinse", "Timer":
                return Machine("Drain", self.program)
            case "Drain", "Timer":
                return Machine("Dry", self.program)
            case "Dry", "Timer":
                return Machine()
        return self

    @property
    def valid(self) -> list[str]:
        """The triggers that do something here."""
        return [trigger for trigger in TRIGGERS[1:] if self.after(trigger) != self]

    @property
    def memory(self) -> tuple[str, int]:
        """What of the state the future depends on: programs with as many rounds behave alike."""
        if self.name == "Programmed":
            return self.name, rounds_of(self.program)
        return self.name, self.rounds

    @property
    def output(self) -> str:
        """What can be seen and heard of it from outside: Idle is Programmed and Rinse is Dry to who stands before it."""
        power, _, _, _, pump, _, outlet, spin = self.variables
        return "spins" if spin else "fills" if pump else "empties" if outlet else "lit" if power else "dark"

    @property
    def variables(self) -> tuple[int, ...]:
        """The eight state variables."""
        runs = self.name in ("Soak", "Rinse", "Drain", "Dry")
        return (
            int(self.name != "Off"),
            self.program,
            int(runs),
            int(runs),
            int(self.name == "Soak"),
            int(self.name in ("Soak", "Rinse")),
            int(self.name == "Drain"),
            int(self.name in ("Rinse", "Dry")),
        )


def trigger_vector(trigger: str) -> tuple[int, ...]:
    """A trigger as a vector of the state variables: along the axis of what fires it, m long for Program m; `none` is zero.

    ```python
    rc.data.trigger_vector("Power")            # (1, 0, 0, 0, 0, 0, 0, 0)
    ```
    """
    choose_from("trigger", trigger, TRIGGERS)
    axes = {
        "Power": "Power",
        "Program": "Program",
        "Start": "Program Start",
        "Level": "Water Level",
        "Timer": "Timer Trigger",
    }
    kind, _, number = trigger.partition(" ")
    return tuple(int(number or 1) if kind in axes and name == axes[kind] else 0 for name in VARIABLES)


def change_of(machine: Machine, trigger: str) -> tuple[int, ...]:
    """What a trigger adds to the state variables here: next state − state. Zeros where it does nothing."""
    after = machine.after(trigger).variables
    return tuple(new - old for old, new in zip(machine.variables, after, strict=True))


def machine_vectors(
    count: int, length: int, seed: int = 0, noise: float = 0.1
) -> tuple[Float[Tensor, "N T 16"], Float[Tensor, "N T 8"]]:
    """The machine at work as a network can read it: at each step the variables of the current state and the vector of the
    trigger, and as target the variables of the next state.

    ```python
    x, y = rc.data.machine_vectors(4, 50)
    x.shape, y.shape                           # [4, 50, 16], [4, 50, 8]
    ```
    """
    drawn, _ = washing_machine(count, length, seed, noise, pause=0.0)
    machines, following, _ = tables()
    variables = torch.tensor([machine.variables for machine in machines]).float()
    vectors = torch.tensor([trigger_vector(trigger) for trigger in TRIGGERS]).float()
    after, now, states = torch.from_numpy(following), torch.zeros(count, dtype=torch.int64), []
    for t in range(length):
        states.append(now)
        now = after[now, drawn[:, t]]
    met = torch.stack([*states, now], 1)
    return torch.cat([variables[met[:, :-1]], vectors[drawn]], -1), variables[met[:, 1:]]


RESTS = 0.04
"""The chance, at each moment of a log with rests, that one begins."""


def washing_machine(
    count: int, length: int, seed: int = 0, noise: float = 0.1, pause: float = 0.4, rest: int = 0
) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Logs of the machine at work: the trigger of each moment, and the number of the state that follows.

    - `noise`: the share of moments with a trigger that does nothing. `pause`: the share with no trigger at all.
    - `rest`: in half of the logs, now and then nothing happens for up to this many moments: a state must be held for any length
      of time, and where it is held must not drift. 0: never.
    """
    if count < 1 or length < 1:
        raise OptionError(f"washing_machine: count and length must be at least 1; got {count} and {length}.")
    if not (noise >= 0 and pause >= 0 and noise + pause < 1):
        raise OptionError(f"noise and pause are shares that leave some triggers; got {noise} and {pause}.")
    if rest < 0:
        raise OptionError(f"rest must not be negative; got {rest}.")
    random = np.random.default_rng(seed % 2**64)
    machines, following, useful = tables()
    names = np.array([NAMES.index(machine.name) for machine in machines])
    triggers, states = np.zeros((count, length), dtype=np.int64), np.zeros((count, length), dtype=np.int64)
    resting = _rests(count, length, rest, random)
    now = np.zeros(count, dtype=np.int64)
    for t in range(length):
        chance, order = random.random(count), random.random((count, len(TRIGGERS)))
        wanted = np.where((chance < pause + noise)[:, None], ~useful[now], useful[now])
        wanted[:, 0] = False
        drawn = np.where(wanted, order, -1).argmax(1)  # one of those that are wanted, each as likely
        triggers[:, t] = np.where((chance < pause) | resting[:, t], 0, drawn)
        now = following[now, triggers[:, t]]
        states[:, t] = names[now]
    return torch.from_numpy(triggers), torch.from_numpy(states)


def _rests(count: int, length: int, longest: int, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """At which moments of which logs the machine is left alone; the second half of the logs has none."""
    resting = np.zeros((count, length), dtype=np.bool_)
    left = np.zeros((count + 1) // 2, dtype=np.int64)
    for t in range(length if longest else 0):
        begins = (left == 0) & (random.random(len(left)) < RESTS)
        left = np.where(begins, random.integers(1, longest + 1, len(left)), left)
        resting[: len(left), t] = left > 0
        left = np.maximum(left - 1, 0)
    return resting


def every_state() -> list[Machine]:
    """Every state that the machine can come to, Off first."""
    return tables()[0]


def memories_of(after: Sequence[Sequence[int]]) -> tuple[list[set[tuple[str, int]]], int]:
    """A table of transitions walked beside the machine: what each of its states stands for, and how many steps lead nowhere.

    - `after`: by state and trigger, the number of the next state, or −1; state 0 stands for Off.

    The table is the machine if each of its states stands for one memory, each of the 13 memories has one state, and no step
    leads nowhere (`is_the_machine`).
    """
    found: list[set[tuple[str, int]]] = [set() for _ in after]
    waiting, lost = [(0, Machine())] if after else [], 0
    for state, machine in waiting:  # it grows while it is read
        if machine.memory in found[state]:
            continue
        found[state].add(machine.memory)
        for trigger, then in zip(TRIGGERS, after[state], strict=True):
            if then < 0:
                lost += 1
            else:
                waiting.append((then, machine.after(trigger)))
    return found, lost


def is_the_machine(after: Sequence[Sequence[int]]) -> bool:
    """Whether a table of transitions is the machine's, one state for each memory."""
    found, lost = memories_of(after)
    known = {machine.memory for machine in every_state()}
    return lost == 0 and all(len(each) == 1 for each in found) and len(found) == len(known) == len(set().union(*found))


@cache
def tables() -> tuple[list[Machine], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The states, the number of the state that follows each trigger, and which triggers do something."""
    machines, place = [Machine()], {Machine(): 0}
    for machine in machines:  # it grows while it is read
        for trigger in TRIGGERS:
            after = machine.after(trigger)
            if after not in place:
                place[after] = len(machines)
                machines.append(after)
    following = np.array([[place[machine.after(trigger)] for trigger in TRIGGERS] for machine in machines])
    return machines, following, following != np.arange(len(machines))[:, None]
