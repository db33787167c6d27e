"""Rows of a text whose cells stand between commas, semicolons or tabs, quoted where they hold one."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path

from recurra.data.limits import check_limit, limits
from recurra.errors import DataError

LARGEST = 1e150
"""The largest number that is read: the squares of larger ones, and their sums, are not finite."""


def finite_number(cell: str) -> float | None:
    """The number that a cell holds; `None` where it holds something else, NaN or ±inf."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def usable_number(cell: str) -> float | None:
    """The number that a cell holds, if its square is finite too."""
    value = finite_number(cell)
    return value if value is not None and abs(value) <= LARGEST else None


def fault_of(cell: str) -> str:
    """What is wrong with a cell that is no usable number."""
    if finite_number(cell) is None:
        return "is not a finite number"
    return f"is too large: beyond {LARGEST:g} squares are not finite"


def separator_of(text: str, among: str = ",;\t") -> str:
    """What stands most often in the first line that is not empty."""
    first = re.compile(r"\s*([^\n]*)").match(text)
    return max(among, key=(first[1] if first else "").count)


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
    most, count = limits(), 0
    try:
        for row in reader:
            count += len(row)
            if len(row) > most.columns or count > most.cells:
                check_limit("columns", len(row), f"{path}, line {reader.line_num}")
                check_limit("cells", count, f"{path}, line {reader.line_num}")
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}, cannot be read as a table: {error}. Check the quotes."
        ) from None
