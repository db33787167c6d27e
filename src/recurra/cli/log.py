from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, print_json


def log(
    machine: Annotated[str, typer.Argument(help="Whose log: washing-machine.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("log.csv"),
    cases: Annotated[int, typer.Option(min=1, help="So many; a case begins when the machine is switched on.")] = 300,
    length: Annotated[int, typer.Option(min=1, help="Triggers of a case, at most.")] = 100,
    noise: Annotated[float, typer.Option(help="The share of triggers that do nothing.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Also the state variables and the trigger's vector.")
    ] = False,
    names: Annotated[
        list[str] | None, typer.Option(help="A name of your own for a state or trigger: 'Program 1=Program Select'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a machine and write its log: step, current state, trigger, next state."""
    from recurra.data.machine_log import read_names, simulate_log, write_log
    from recurra.errors import choose_from

    choose_from("machine", machine, ["washing-machine"])
    made = simulate_log(cases, length, seed, noise)
    rows = write_log(out, made, vectors=vectors, names=read_names(names or []))
    if as_json:
        print_json({"file": str(out), "cases": len(made.cases), "rows": rows})
    else:
        print(f"{out}: {len(made.cases)} cases, {rows} rows")
