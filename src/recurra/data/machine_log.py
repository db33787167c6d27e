"""The washing machine's event log: a row for each trigger, with the state that it met and what could be seen of it.

A case begins when the machine is switched on. A trigger that does nothing in its state is noise; the state stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recurra.data.events import Case, EventLog
from recurra.data.in_memory import csv_text, write_file
from recurra.data.machine import TRIGGERS, Machine, washing_machine

COLUMNS = ("case", "step", "state", "output", "trigger")


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


def write_log(path: str | Path, log: EventLog) -> None:
    """The log as CSV, with the columns case, step, state, output and trigger.

    ```python
    rc.data.write_log("log.csv", rc.data.simulate_log(20, seed=0))
    ```
    """
    rows = (
        (case.name, step, *row)
        for case in log.cases
        for step, row in enumerate(
            zip(case.attributes["state"], case.attributes["output"], case.activities, strict=True), start=1
        )
    )
    write_file(Path(path), csv_text(COLUMNS, rows, quote_all=False))


def _case(name: str, triggers: list[str]) -> Case:
    met = walk(triggers)[:-1]
    seen = {"state": [machine.name for machine in met], "output": [machine.output for machine in met]}
    return Case(name, triggers, None, seen)
