"""What the verbs share in printing: tables on a terminal or in plain lines, and `--json`."""

from __future__ import annotations

import json
import math
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
    """As JSON knows it: a number that is none, or without end, is null."""
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table, markup=False)
