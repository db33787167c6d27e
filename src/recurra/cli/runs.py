from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recurra.cli.output import AsJson, Strict, print_json, print_table, tell
from recurra.results import Table


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"),
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder, newest first."""
    from recurra.errors import RunError
    from recurra.tasks.train import runs as list_runs

    damaged: list[str] = []

    def notice(sentence: str) -> None:
        if strict:
            raise RunError(sentence)
        tell(sentence)
        damaged.append(sentence)

    rows = [run.summary() for run in list_runs(folder, notice=notice)]
    if as_json:
        print_json({"runs": rows, "damaged": damaged})
        return
    table = [
        [r["run"], r["recipe"], str(r["step"]), "" if r["best_valid"] is None else f"{r['best_valid']:.4f}"]
        for r in rows
    ]
    print_table(Table(["run", "recipe", "step", "best validation"], table))
