"""`recurra lecture`: the group of what is for learning, and what its commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recurra.cli.output import print_json, print_result
from recurra.errors import OptionError

if TYPE_CHECKING:
    from recurra.results import Result

lecture = typer.Typer(help="Small things to learn from: numbers, tables and pictures.", no_args_is_help=True)

Plot = Annotated[
    Path | None, typer.Option(help="Draw it: FILE.svg, .png or .pdf; without an ending, on light and dark.")
]


def read_numbers(what: str, text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(abs(each) < 1e100 for each in numbers):
        raise OptionError(f"{what}: {text!r} cannot be read. Write numbers with commas between them, as 1,0,0.5.")
    return numbers


def show(result: Result, plot: Path | None, as_json: bool) -> None:
    """Print a result, and draw it where that is asked for."""
    from recurra.plots.figure import name_files

    files = [] if plot is None else [str(each) for each in name_files(plot)]
    if plot is not None:
        result.plot(plot)
    if as_json:
        print_json(result.to_json() | ({"pictures": files} if files else {}))
        return
    print_result(result, as_json)
    for each in files:
        print(each)
