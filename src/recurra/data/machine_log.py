"""The washing machine's event log: a row for each trigger, with the state that it met and what could be seen of it.

A case begins when the machine is switched on. A trigger that does nothing in its state is noise; the state stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from recurra.data.events import Case, EventLog
from recurra.data.in_memory import csv_text, write_file
from recurra.data.machine import NAMES, TRIGGERS, VARIABLES, Machine, trigger_vector, washing_machine
from recurra.errors import OptionError, nearest

COLUMNS = ("case", "step", "state", "output", "trigger", "next state")


def simulate_log(cases: int = 300, length: int = 100, seed: int = 0, noise: float = 0.1) -> EventLog:
    """The machine at work, up to `length` triggers a case; `noise` is the share of triggers that do nothing.

    ```python
    log = rc.data.simulate_log(cases=1, length=6, seed=3)
    log.cases[0].activities                    # ['Power', 'Program 1', …]
    log.cases[0].attributes["state"]           # ['Off', 'Idle', …]: what each trigger met
    ```
    """
    drawn, _ = washing_machine(cases, length, seed, noise, pause=0.0)
    named = [[TRIGGERS[k] for k in row] for row in drawn.tolist()]
    begun = [row[row.index("Power") :] if "Power" in row else ["Power"] for row in named]
    return EventLog(
        [_case(str(k), row) for k, row in enumerate(begun, start=1)],
        {"case": "case", "activity": "trigger", "time": None},
    )


def walk(triggers: Iterable[str]) -> list[Machine]:
    """The machine before each trigger, from Off on, and after the last."""
    machines = [Machine()]
    for trigger in triggers:
        machines.append(machines[-1].after(trigger))
    return machines


def write_log(path: str | Path, log: EventLog, *, vectors: bool = False, names: Mapping[str, str] | None = None) -> int:
    """The log as CSV, with the columns case, step, state, output, trigger and next state; how many rows it has.

    - `vectors`: also a column for each state variable of the state that was met, and for each of the trigger's vector.
    - `names`: names of your own for states and triggers.

    ```python
    log = rc.data.simulate_log(20, seed=0)
    rc.data.write_log("log.csv", log)
    rc.data.write_log("own.csv", log, vectors=True, names={"Program 1": "Program Select", "Dry": "Spin dry"})
    ```
    """
    names = names or {}
    known = {*NAMES, *TRIGGERS}
    for name in names:
        if name not in known:
            raise OptionError(f"the machine has no state or trigger {name!r} to rename.{nearest(name, known)}")

    def called(name: str) -> str:
        return names.get(name, name)

    rows = []
    for case in log.cases:
        for step, (machine, after, trigger) in enumerate(_steps(case), start=1):
            row = (case.name, step, called(machine.name), machine.output, called(trigger), called(after.name))
            rows.append((*row, *machine.variables, *trigger_vector(trigger)) if vectors else row)
    more = (*VARIABLES, *(f"trigger {name}" for name in VARIABLES)) if vectors else ()
    write_file(Path(path), csv_text((*COLUMNS, *more), rows, quote_all=False))
    return len(rows)


def read_names(given: Iterable[str]) -> dict[str, str]:
    """`Program 1=Program Select` for each name."""
    found = {}
    for each in given:
        name, sign, own = each.partition("=")
        if not (sign and name.strip() and own.strip()):
            raise OptionError(
                f"a name of your own is written NAME=OWN, as in 'Program 1=Program Select'; got {each!r}."
            )
        found[name.strip()] = own.strip()
    return found


def _steps(case: Case) -> Iterator[tuple[Machine, Machine, str]]:
    """The machine before and after each trigger of a case."""
    machines = walk(case.activities)
    yield from zip(machines, machines[1:], case.activities, strict=False)


def _case(name: str, triggers: list[str]) -> Case:
    met = walk(triggers)[:-1]
    seen = {"state": [machine.name for machine in met], "output": [machine.output for machine in met]}
    return Case(name, triggers, None, seen)
