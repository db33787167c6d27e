"""What the verbs share: a run as argument, a device, `--json`, and how a result is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

from recurra.results import Result, Table, to_plain

if TYPE_CHECKING:
    from recurra.tasks.run import Run

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")]


def open_run(path: Path, device: str = "cpu") -> Run:
    """The run in a folder; torch is imported only now."""
    from recurra.tasks.train import open_run

    return open_run(path, device=device)


def console() -> Console:
    """Standard output as it is now (tests and pipes replace it), without a width limit where it is not a terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=200)


def print_json(value: Any) -> None:
    """As JSON knows it: NaN and ±inf are null."""
    print(json.dumps(to_plain(value), indent=2, allow_nan=False))


def print_result(result: Result, as_json: bool, **facts: Any) -> None:
    """A result as its text (a table, if it is one), or with `--json` its fields after some facts."""
    if as_json:
        print_json(facts | result.to_json())
        return
    table = result.table()
    if table is not None and type(result).__str__ is Result.__str__:
        print_table(table)
    else:
        print(result)


def print_table(table: Table) -> None:
    made = RichTable(title=table.title or None, title_justify="left", box=None, pad_edge=False)
    for column in table.columns:
        made.add_column(column, overflow="fold")
    for row in table.rows:
        made.add_row(*row)
    console().print(made, markup=False)
