"""Files with rows: tables with a header line (CSV, TSV, with semicolons too), and JSON objects line by line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.data.comma_separated import rows_of, separator_of
from recurra.errors import DataError, listed, quoted

LABELS = ("label", "labels", "class", "category", "target", "y", "tags", "tag")
TEXTS = ("text", "tokens", "values", "sentence", "sequence", "message", "review", "words", "series", "x")
"""Names that columns are guessed by, in this order."""


@dataclass(frozen=True)
class Table:
    """Rows by column. `places`: where each row stands, for messages."""

    columns: list[str]
    rows: list[dict[str, Any]]
    places: list[str]


def read_csv(path: str | Path, text: str) -> Table:
    """A table whose first line names its columns; they are parted by what stands most often in that line: , ; or a tab."""
    every = rows_of(path, text, separator_of(text, "\t;,"), keep_spaces=True)
    columns = next(([name.strip() for name in row] for _, row in every if row), [])
    rows, places = [], []
    for line, values in every:
        if not values:
            continue
        places.append(f"{path}, line {line}")
        if len(values) != len(columns):
            raise DataError(
                f"{places[-1]}: {len(values)} values were found for {len(columns)} columns ({listed(columns)}). "
                "Put values that hold the separator in quotes."
            )
        rows.append(dict(zip(columns, values, strict=True)))
    return Table(columns, rows, places)


def read_json_lines(path: str | Path, text: str) -> Table:
    """One object per line; the columns are the names of the first."""
    rows, places = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        places.append(f"{path}, line {number}")
        row = _parse(line, places[-1])
        if not isinstance(row, dict):
            raise DataError(f'{places[-1]} is not an object. Write {{"text": …, "label": …}} on each line.')
        rows.append(row)
    return Table(list(rows[0]) if rows else [], rows, places)


def _parse(line: str, place: str) -> Any:
    try:
        row = json.loads(line)
        if r"\ud" in line.lower():  # half a character can be written as an escape
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: {quoted(error.object[error.start])} is half a character. Leave it out.") from None
    except ValueError as error:
        raise DataError(f"{place} is not JSON ({error}). Write one object per line.") from error
    except RecursionError:
        raise DataError(f"{place} is nested too deeply to be read. Write lists of numbers or of texts.") from None
    return row


def find_columns(
    path: str | Path, table: Table, text: str | None, label: str | None, *, labelled: bool = True
) -> tuple[list[str], str | None]:
    """The columns that hold the sequence, and the one that holds its label: as they are named, or guessed.

    - `text`, `label`: names that are given. Guessed are the usual names; with two columns, the other one; and where all other
      columns hold numbers, all of them, as the steps of one channel.
    - `labelled`: a label is needed; otherwise there may be none.
    """
    found = table.columns
    for key, name in (("data.text", text), ("data.label", label if labelled else None)):
        if name is not None and name not in found:
            raise DataError(f"{path} has no column {quoted(name)} ({key}). Found: {listed(found)}.")
    lower = {name.lower(): name for name in reversed(found)}
    if label is None:
        label = next((lower[name] for name in LABELS if name in lower and lower[name] != text), None)
    if text is None:
        text = next((lower[name] for name in TEXTS if name in lower and lower[name] != label), None)
    label = label if label in found else None
    others = [name for name in found if name not in (text, label)]
    if label is None and labelled and text is not None and len(others) == 1:
        label = others[0]
    if label is None and labelled:
        raise DataError(f"{path}: which column holds the label? Found: {listed(found)}. Set data.label=NAME.")
    others = [name for name in others if name != label]
    if text is not None:
        return [text], label
    if len(others) == 1:
        return others, label
    words = {name: [k for k, row in enumerate(table.rows) if not _is_number(row.get(name))] for name in others}
    if others and not any(words.values()):
        return others, label
    if others and all(2 * len(rows) < len(table.rows) for rows in words.values()):
        row, name = min((rows[0], name) for name, rows in words.items() if rows)
        raise DataError(
            f"{table.places[row]}, {name:.40}: {quoted(table.rows[row][name])} is not a finite number, as most cells of the "
            "column are. Correct it, write ? where a value is missing, or name the column of a text with data.text=NAME."
        )
    raise DataError(f"{path}: which column holds the text? Found: {listed(found)}. Set data.text=NAME.")


def _is_number(value: Any) -> bool:
    try:
        float(value) if isinstance(value, str) and value.strip() not in ("", "?") else None
    except ValueError:
        return False
    return isinstance(value, str)
