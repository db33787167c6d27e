"""The washing machine as vectors: states of eight state variables, triggers as vectors, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recurra.data.machine import NAMES, TRIGGERS, VARIABLES, Machine, change_of, every_state, trigger_vector
from recurra.errors import OptionError, choose_from
from recurra.results import Result, Table


@dataclass(frozen=True)
class StateVectors(Result):
    """The states of the machine under one program, and its triggers, as vectors of the state variables."""

    variables: tuple[str, ...]
    states: dict[str, tuple[int, ...]]
    triggers: dict[str, tuple[int, ...]]

    def table(self) -> Table:
        rows = [(name, *map(str, values)) for name, values in self.states.items()]
        rows += [(f"trigger {name}", *map(str, values)) for name, values in self.triggers.items()]
        return Table(("", *self.variables), rows)


def state_vectors(program: int = 1) -> StateVectors:
    """Every state and trigger as a vector, with a program chosen.

    ```python
    vectors = rc.lecture.state_vectors()
    print(vectors)
    vectors.states["Programmed"]                                    # (1, 1, 0, 0, 0, 0, 0, 0)
    vectors.plot("states.svg")
    ```
    """
    found = {each.name: each for each in every_state() if each.program in (0, program)}
    if len(found) < len(NAMES):
        raise OptionError(f"program {program} does not exist; the machine has 1 to 6.")
    kept = [name for name in TRIGGERS[1:] if not name.startswith("Program ") or name == f"Program {program}"]
    return StateVectors(
        VARIABLES, {name: found[name].variables for name in NAMES}, {name: trigger_vector(name) for name in kept}
    )


@dataclass(frozen=True)
class VectorSum(Result):
    """States reached by triggers, and what each adds: state + change = next state, variable by variable.

    - `axes`: the three variables that a picture shows.
    """

    triggers: tuple[str, ...]
    names: tuple[str, ...]
    states: tuple[tuple[int, ...], ...]
    changes: tuple[tuple[int, ...], ...]
    axes: tuple[str, str, str]

    def table(self) -> Table:
        rows = [
            (str(k + 1), self.names[k], _vector(self.states[k]), trigger, _vector(self.changes[k]), self.names[k + 1])
            for k, trigger in enumerate(self.triggers)
        ]
        return Table(("step", "current state", "its vector", "trigger", "what it adds", "next state"), rows)


def add_triggers(
    triggers: Sequence[str] = ("Power", "Program 1", "Start"),
    axes: Sequence[str] = ("Power", "Program", "Water Pump"),
) -> VectorSum:
    """Fire triggers from Off on, and show each as the vector that leads from the tip of one state to the next.

    ```python
    found = rc.lecture.add_triggers(["Power", "Program 1"], axes=["Power", "Program", "Program Start"])
    assert found.states[2] == (1, 1, 0, 0, 0, 0, 0, 0)              # (1, 0, 0, …) + (0, 1, 0, …)
    found.plot("sum.svg")
    ```
    """
    if len(axes) != 3 or len(set(axes)) != 3:
        raise OptionError(f"a picture shows three different variables; got {list(axes)}.")
    for name in axes:
        choose_from("axis", name, VARIABLES)
    if not triggers:
        raise OptionError("there is nothing to add: give at least one trigger.")
    machine, names, states, changes = Machine(), ["Off"], [Machine().variables], []
    for trigger in triggers:
        changes.append(change_of(machine, trigger))
        machine = machine.after(trigger)
        names.append(machine.name)
        states.append(machine.variables)
    return VectorSum(tuple(triggers), tuple(names), tuple(states), tuple(changes), (axes[0], axes[1], axes[2]))


def _vector(values: Sequence[Any]) -> str:
    return "[" + " ".join(map(str, values)) + "]"
