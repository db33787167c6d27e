"""Labels from a column of a table: a row for each character of a text, or for each of its words or other pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recurra.analysis.source_labels import Values
from recurra.data.comma_separated import rows_of, separator_of
from recurra.data.guard import reads
from recurra.data.text import read_documents
from recurra.errors import DataError, OptionError, listed, nearest, quoted

PIECES = "text"
"""The column with the part of the text that a row is for."""
_NAMED = re.compile(r"(?P<file>.+\.(?:csv|tsv)(?:\.gz)?):(?P<column>.+)")


def is_column(named: str) -> bool:
    """Whether a label is asked for as `FILE.tsv:COLUMN`."""
    return _NAMED.fullmatch(named) is not None


def column_name(named: str) -> str:
    """The name of the label: its column, with the value if one is asked for."""
    found = _NAMED.fullmatch(named)
    assert found is not None
    return found["column"]


@reads
def read_column(named: str, texts: Sequence[str]) -> list[Values]:
    """`FILE.tsv:COLUMN` as a number for each character of each text: those of the column, in the order of the rows.

    `FILE.tsv:COLUMN=VALUE` is 1 where the column has that value, and 0 elsewhere.

    A table has a first line with the names of its columns. Without a column `text`, there is a row for each character. With it, a
    row is for the piece of the text that stands there, and pieces follow one another, with nothing but blanks between;
    those have the value of the piece before.

    ```python
    from pathlib import Path

    Path("words.tsv").write_text("text\\ttag\\nthe\\tDET\\ncat\\tNOUN\\n")
    rc.analysis.read_column("words.tsv:tag=NOUN", ["the cat"])      # [0 0 0 0 1 1 1]
    ```
    """
    found = _NAMED.fullmatch(named)
    if found is None:
        raise OptionError(f"label {quoted(named)} is none of a table. Write FILE.tsv:COLUMN or FILE.tsv:COLUMN=VALUE.")
    path = Path(found["file"]).expanduser()
    if not path.is_file():
        raise OptionError(f"there is no file {path} with labels. Check its name.")
    table = read_documents(path)[0].text
    every = rows_of(path, table, separator_of(table))
    header = [cell.strip() for cell in next(every, (0, []))[1]]
    rows = [(line, row) for line, row in every if row]
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} cells, but the first line names {len(header)} columns.")
    column, _, value = found["column"].partition("=") if found["column"] not in header else (found["column"], "", "")
    if column not in header:
        raise OptionError(f"{path} has no column {quoted(column)}; it has {listed(header)}.{nearest(column, header)}")
    cells = [(line, row[header.index(column)].strip()) for line, row in rows]
    values = _numbers(path, column, cells) if column == found["column"] else _are(path, column, cells, value)
    whole = "".join(texts)
    if PIECES in header:
        pieces = [(line, row[header.index(PIECES)]) for line, row in rows]
        values = _spread(path, whole, pieces, values)
    elif len(values) != len(whole):
        raise DataError(
            f"{path} has {len(values):,} rows below the first, but the text has {len(whole):,} characters. Give a row for each "
            f"character, or a column {PIECES!r} with the part of the text that a row is for."
        )
    return np.split(values, np.cumsum([len(text) for text in texts])[:-1])


def _numbers(path: Path, column: str, cells: list[tuple[int, str]]) -> Values:
    values = np.zeros(len(cells), np.float32)
    for k, (line, cell) in enumerate(cells):
        try:
            values[k] = float(cell)
        except ValueError:
            values[k] = np.nan
        if not np.isfinite(values[k]):
            raise DataError(
                f"{path}, line {line}: {quoted(cell)} in the column {quoted(column)} is no number. Ask for one of "
                f"its values instead, as {path}:{column:.40}={cell[:40] or 'VALUE'}."
            )
    return values


def _are(path: Path, column: str, cells: list[tuple[int, str]], value: str) -> Values:
    known = dict.fromkeys(cell for _, cell in cells)
    if value not in known:
        raise OptionError(f"the column {quoted(column)} of {path} is never {quoted(value)}.{nearest(value, known)}")
    return np.array([cell == value for _, cell in cells], np.float32)


def _spread(path: Path, whole: str, pieces: list[tuple[int, str]], values: Values) -> Values:
    """The values of pieces as values of characters."""
    spread, at, last = np.zeros(len(whole), np.float32), 0, np.float32(0)
    for (line, piece), value in zip(pieces, values, strict=True):
        start = at
        while not whole.startswith(piece or whole[start : start + 1], start) and whole[start : start + 1].isspace():
            start += 1
        size = len(piece) or 1  # a cell that is empty was a blank
        if start >= len(whole) or not whole.startswith(piece, start) or not (piece or whole[start].isspace()):
            raise DataError(
                f"{path}, line {line}: {quoted(piece)} does not follow in the text, where after {at:,} characters comes "
                f"{whole[at : at + 20]!r}. Give the pieces of the text in their order, without a gap."
            )
        spread[at:start], spread[start : start + size] = last, value
        at, last = start + size, value
    if whole[at:].strip():
        raise DataError(
            f"{path} ends before the text does: its {len(pieces):,} rows are for {at:,} of {len(whole):,} characters, and "
            f"{whole[at : at + 20]!r} comes next."
        )
    spread[at:] = last
    return spread
