"""What the verbs share in printing: tables on a terminal or in plain lines, and `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def console() -> Console:
    """Standard output as it is now (tests and pipes replace it), without a width limit where it is not a terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=200)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table, markup=False)
