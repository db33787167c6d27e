"""Tables of numbers with one column of labels, from CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from recurra.data.classes import Labelled, number_classes
from recurra.data.comma_separated import LARGEST, fault_of, named_rows, usable_number
from recurra.data.guard import reads
from recurra.data.text import read_documents
from recurra.errors import DataError, listed, nearest, quoted

USUAL = ("label", "class", "target", "species", "category")
"""What a column of labels is often called."""


@reads
def read_table(
    path: str | Path,
    label: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Labelled:
    """The rows of a table: every column but one is an input and holds numbers, the one that is left holds the classes.

    ```python
    table = read_table("iris.csv", label="species")
    table.x, table.labels, table.classes, table.columns
    ```

    - `label`: the column of labels: its name, or its number from 1. Without it, it is the one with a usual name, else the only
      one that does not hold numbers, else `y`, else the last; `about` names it.
    - `columns`, `classes`: those of a trained model; the table must have them.

    Cells are separated by commas, semicolons or tabs. The first line holds names if no cell of it is a number.
    """
    name = Path(path).name
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; a table is one file. Name it.")
    header, rows = named_rows(name, read_documents(path)[0].text)
    if not header:
        raise DataError(f"{path} holds no rows. Name a table.")
    if not rows:
        raise DataError(f"{name} has no rows below the names of its columns. Give rows to learn from.")
    if len(header) < 2:
        raise DataError(f"{name} has one column; a table needs one of labels and at least one of numbers.")
    twice = sorted(each for each, count in Counter(header).items() if count > 1)
    if twice:
        raise DataError(f"{name} has more than one column {quoted(twice[0])}. Give each its own name.")
    lines, cells = zip(*rows, strict=True)
    table = np.array(cells, dtype=object)
    chosen = _choose(name, header, table, label)
    inputs = [k for k in range(len(header)) if k != chosen]
    if columns is not None:
        place = {each: k for k, each in enumerate(header) if k != chosen}
        missing = [each for each in columns if each not in place]
        if missing:
            raise DataError(
                f"{name} has no column {quoted(missing[0])}, which the model reads.{nearest(missing[0], header)}"
            )
        inputs = [place[each] for each in columns]
    x = np.stack([_numbers(name, header[k], table[:, k], lines, label is None) for k in inputs], axis=1)
    labels, found = number_classes(list(table[:, chosen]), f"{name}, column {quoted(header[chosen])}", classes)
    if classes is None and len(found) > max(2, len(cells) // 2):
        raise DataError(
            f"{name}: column {quoted(header[chosen])} has {len(found)} different values in {len(cells)} rows: no "
            f"classes. Name the column of labels. Known: {listed(header)}."
        )
    guess = "" if label is not None else " (guessed)"
    about = f"{name}: {len(cells):,} rows of {len(inputs)} columns, label {quoted(header[chosen])}{guess}"
    return Labelled(torch.from_numpy(x), labels, tuple(found), tuple(header[k] for k in inputs), about)


def _choose(name: str, header: list[str], table: npt.NDArray[np.object_], label: str | None) -> int:
    """Which column holds the labels."""
    if label is not None:
        if label in header:
            return header.index(label)
        if label.isdecimal() and len(label) < 10 and 1 <= int(label) <= len(header):
            return int(label) - 1
        raise DataError(f"{name} has no column {quoted(label)}.{nearest(label, header)}")
    lowered = [each.lower() for each in header]
    usual = [lowered.index(each) for each in USUAL if each in lowered]
    if usual:
        return usual[0]
    words = [k for k in range(len(header)) if _as_numbers(table[:, k]) is None]
    if len(words) == 1:
        return words[0]
    return lowered.index("y") if "y" in lowered else len(header) - 1


def _numbers(
    name: str, column: str, cells: npt.NDArray[np.object_], lines: Sequence[int], guessed: bool
) -> npt.NDArray[np.float64]:
    values = _as_numbers(cells)
    if values is not None:
        return values
    line, cell = next((line, cell) for line, cell in zip(lines, cells, strict=True) if usable_number(cell) is None)
    found = f"{quoted(cell)}, which {fault_of(cell)}" if cell else "nothing"
    hint = (
        f", or name it as the label if it holds the classes (data.label={listed([column])})" if guessed and cell else ""
    )
    raise DataError(f"{name}, line {line}: column {quoted(column)} holds {found}. Write numbers there{hint}.")


def _as_numbers(cells: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    """A column as numbers; `None` where a cell holds none, NaN, ±inf or a number that is too large."""
    try:
        values = cells.astype(np.float64)
    except ValueError:
        return None
    return values if bool((np.abs(values) <= LARGEST).all()) else None
