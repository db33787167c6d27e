"""Series from files: rows of numbers, one step of time each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from recurra.data.comma_separated import rows_of, separator_of
from recurra.errors import DataError, OptionError, nearest
from recurra.types import Float


@dataclass(frozen=True, eq=False)
class Series:
    """Columns with their names; each row is one step."""

    names: tuple[str, ...]
    values: Float[Tensor, "T C"]


def read_series(path: str | Path, columns: Sequence[str] = ()) -> Series:
    """A CSV file (commas, semicolons or tabs) in float64. A first row without a single number names the columns.

    - `columns`: the names of those to read, in this order; all otherwise. The others may hold anything.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8. Save it as CSV in UTF-8.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    rows = [(line, row) for line, row in rows_of(path, text, separator_of(text)) if any(cell.strip() for cell in row)]
    if not rows:
        raise DataError(f"{path} is empty. Give a file with one row of numbers for each step.")
    names = tuple(cell.strip() for cell in rows[0][1])
    if any(_number(name) is not None for name in names):
        names = tuple(f"column {k + 1}" for k in range(len(names)))
    else:
        rows = rows[1:]
    places = _find(path, names, columns)
    values = [_read_row(path, line, row, names, places) for line, row in rows]
    kept = tuple(names[k] for k in places)
    return Series(kept, torch.tensor(values, dtype=torch.float64).reshape(len(values), len(kept)))


def _find(path: str | Path, names: tuple[str, ...], columns: Sequence[str]) -> list[int]:
    for name in columns:
        if name not in names:
            raise OptionError(f"{path} has no column {name!r}.{nearest(name, names)}")
    return [names.index(name) for name in columns] if columns else list(range(len(names)))


def _read_row(path: str | Path, line: int, row: list[str], names: tuple[str, ...], places: list[int]) -> list[float]:
    if len(row) != len(names):
        raise DataError(
            f"{path}, row {line}: {len(row)} cells, where the first row has {len(names)}. Correct that row."
        )
    values = [_number(row[k]) for k in places]
    for k, value in zip(places, values, strict=True):
        if value is None:
            raise DataError(
                f"{path}, row {line}, {names[k]}: {row[k]!r} is not a finite number. Correct it, or name the columns to read "
                "with data.columns=NAME,NAME."
            )
    return [value for value in values if value is not None]


def _number(cell: str) -> float | None:
    """What the cell says, if it is a finite number."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
