"""Rows of a text whose cells stand between commas, semicolons or tabs, quoted where they hold one."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from recurra.errors import DataError


def finite_number(cell: str) -> float | None:
    """The number that a cell holds; `None` where it holds something else, NaN or ±inf."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def separator_of(text: str, among: str = ",;\t") -> str:
    """What stands most often in the first line that is not empty."""
    return max(among, key=text.lstrip().partition("\n")[0].count)


def named_rows(
    path: str | Path, text: str, separators: str = ",;\t", *, has_names: bool = False
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of a table's columns, and its rows that are not empty, each with the line that it ends in.

    The first row holds the names if no cell of it is a number, or if it `has_names`; otherwise the columns are `column 1`, ….
    """
    every = (
        (line, [cell.strip() for cell in row]) for line, row in rows_of(path, text, separator_of(text, separators))
    )
    rows = [(line, row) for line, row in every if any(row)]
    names = rows[0][1] if rows else []
    if has_names or all(finite_number(name) is None for name in names):
        rows = rows[1:]
    else:
        names = [f"column {k}" for k in range(1, len(names) + 1)]
    for line, row in rows:
        if len(row) != len(names):
            raise DataError(f"{path}, line {line}: {len(row)} cells, but there are {len(names)} columns. Correct it.")
    return names, rows


def rows_of(
    path: str | Path, text: str, separator: str, *, keep_spaces: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, and the line that it ends in. Lines may end in any way; quoted line breaks are kept.

    - `keep_spaces`: those after a separator are part of the cell.
    """
    reader = csv.reader(
        io.StringIO(text, newline=None), delimiter=separator, skipinitialspace=not keep_spaces, strict=True
    )
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}, cannot be read as a table: {error}. Check the quotes."
        ) from None
