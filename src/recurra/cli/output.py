"""What the verbs share: a run as argument, a device, `--json`, and how a result is printed."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from recurra.cli.terminal import raw_output
from recurra.errors import one_line
from recurra.results import Result, Table, to_plain, visible

if TYPE_CHECKING:
    from recurra.tasks.run import Run

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")]


Trust = Annotated[
    bool, typer.Option("--trust", help="The run is yours: its Python files may be run, and links may lead out of it.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a run folder in which anything is damaged.")]


@dataclass
class Opening:
    """How the command that is running opens run folders, and the run that it has opened."""

    trust: bool = False
    strict: bool = False
    path: Path | None = None
    run: Run | None = None

    def reset(self) -> None:
        self.trust = self.strict = False
        self.path = self.run = None


opening = Opening()


def opens_runs(verb: Any) -> Any:
    """A verb that opens a run folder (its file imports `open_run`) also takes `--trust` and `--strict`, which that reads."""
    if "open_run" not in verb.__globals__:
        return verb
    added = {"trust": Trust, "strict": Strict}

    @functools.wraps(verb)
    def command(**given: Any) -> Any:
        opening.trust, opening.strict = given.pop("trust"), given.pop("strict")
        return verb(**given)

    signature = inspect.signature(verb, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in added.items()
    ]
    made: Any = command
    made.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])
    made.__annotations__ = {each.name: each.annotation for each in made.__signature__.parameters.values()}
    return command


def open_run(path: Path, device: str = "cpu") -> Run:
    """The run in a folder; torch is imported only now. What is damaged is named on standard error."""
    from recurra.tasks.train import open_run

    opening.path = path
    opening.run = open_run(path, device=device, trust=opening.trust, strict=opening.strict, notice=tell)
    return opening.run


LINE = 1000
"""Characters of a line on standard error."""


def tell(sentence: str) -> None:
    """A line on standard error: a remark, or why a command has failed."""
    print(f"recurra: {one_line(sentence, LINE)}", file=sys.stderr)


def console() -> Console:
    """Standard output as it is now (tests and pipes replace it), without a width limit where it is not a terminal."""
    out = Console(file=raw_output())
    return out if out.is_terminal else Console(file=raw_output(), width=200)


def print_json(value: Any) -> None:
    """As JSON knows it: NaN and ±inf are null. What is damaged in the run that was opened is a field of it."""
    if opening.run is not None and opening.run.damaged and isinstance(value, dict):
        value = value | {"damaged": opening.run.damaged}
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
    title = Text(visible(table.title)) if table.title else None
    made = RichTable(title=title, title_justify="left", box=None, pad_edge=False)
    for column in table.columns:
        made.add_column(Text(visible(column)), overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(visible(each)) for each in row))
    console().print(made, markup=False)
