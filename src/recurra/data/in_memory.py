"""Data that is given as Python objects, written into a run folder so that it can be read again from there.

The files are of the kinds that the readers of this package take, and hold the same values: numbers are written by `repr`, which
gives every float64 back, and missing values as NaN. As in every file that is read, line ends become `\\n`, and tables lose spaces
around their cells. Frames are recognised by what they can do (pandas, polars); neither is imported.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.comma_separated import finite_number
from recurra.data.guard import door
from recurra.data.rolls import KEYS, LOWEST, PARTS
from recurra.data.series import TIMES
from recurra.data.tables import LABELS
from recurra.errors import DataError, OptionError, choose_from, listed, quoted

Array = npt.NDArray[Any]

TAKES = {
    "text": "a text or a list of texts",
    "classes": "a list of (class, text), or a frame with these two columns",
    "pairs": "a list of (source, target), or a frame with these two columns",
    "labelled": "(sequences, labels), a dict or frame with a column of each, or a list of dicts",
    "events": "a frame with a row for each event, or a list of dicts",
    "series": "numbers [T] or [T, C], or a frame with a row for each step",
    "trees": "a list of bracketed texts, or of nested lists",
    "table": "(X, y) with X [N, D], or images [N, H, W] or [N, C, H, W]; or a frame with a column of labels",
    "rolls": "a dict with train, valid and test, each a list of pieces: 0 or 1 [T, 88], or lists of MIDI notes",
}
"""The kinds of data, and the objects that each is taken from."""


def write_data(kind: str, data: object, folder: Path, *, lines: bool = False, per_step: bool = False) -> Path:
    """Write an object to `folder/data.*`, or several documents into the folder `folder/data`, and return that path.

    ```python
    from pathlib import Path

    path = rc.data.write_data("labelled", (["good", "bad"], [1, 0]), Path("."))     # data.jsonl
    rc.data.read_labelled(path)
    ```

    - `kind`: one of `TAKES`.
    - `lines`: each text is one sequence, and becomes one line. `per_step`: labels are lists, with one label for each step.
    """
    writers: dict[str, Callable[[Any, Path], Path]] = {
        "text": partial(_write_text, lines=lines),
        "classes": _write_classes,
        "pairs": _write_pairs,
        "labelled": partial(_write_labelled, per_step=per_step),
        "events": _write_events,
        "series": _write_series,
        "trees": _write_trees,
        "table": _write_table,
        "rolls": _write_rolls,
    }
    write = writers[choose_from("the kind of data", kind, writers)]
    with door("data"):
        return write(data, folder)


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file so that it is there whole or not at all; text as UTF-8."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(_utf8(content) if isinstance(content, str) else content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{path} cannot be written: {error}.") from error
    return path


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, quote_all: bool = True) -> str:
    """A table as CSV. Quotes around every cell keep spaces at its start; without `quote_all` a cell has them where it must."""
    written = io.StringIO()
    quoting: Any = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    writer = csv.writer(written, lineterminator="\n", quoting=quoting)
    if columns:
        writer.writerow(columns)
    writer.writerows(rows)
    return written.getvalue()


# -- texts and trees ---------------------------------------------------------------------------------------------------


def _write_text(data: Any, folder: Path, lines: bool) -> Path:
    if isinstance(data, str):
        return write_file(folder / "data.txt", data)
    texts = _texts("text", data)
    blank = next((k for k, text in enumerate(texts, 1) if not text.strip()), None)
    if blank is not None:
        raise DataError(f"data: text {blank} of {len(texts)} is empty. Leave it out.")
    if lines:
        return write_file(folder / "data.txt", "".join(f"{_one_line(text)}\n" for text in texts))
    whole, part = folder / "data", folder / f"data.{os.getpid()}.part"
    try:
        part.mkdir()
        for k, text in enumerate(texts):
            write_file(part / f"{k:06d}.txt", text)
        if whole.exists():
            shutil.rmtree(whole)
        part.replace(whole)
    except OSError as error:
        raise DataError(f"{whole} cannot be written: {error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return whole


def _write_classes(data: Any, folder: Path) -> Path:
    rows = [(name.strip(), _one_line(text.strip())) for name, text in _pairs("classes", data)]
    if any("\t" in _one_line(name) for name, _ in rows):
        raise DataError("data: a class holds a tab, which separates it from its text. Leave it out.")
    return write_file(folder / "data.tsv", "".join(f"{name}\t{text}\n" for name, text in rows))


def _write_pairs(data: Any, folder: Path) -> Path:
    return write_file(folder / "data.csv", csv_text((), _pairs("pairs", data)))


def _write_trees(data: Any, folder: Path) -> Path:
    trees = data if isinstance(data, list | tuple) else _refuse("trees", data)
    if all(isinstance(tree, str) for tree in trees):
        return write_file(folder / "data.txt", "".join(f"{tree}\n" for tree in trees))
    return _write_json_lines(folder, trees)


def _pairs(kind: str, data: Any) -> list[tuple[str, str]]:
    """Two texts for each row: a class or a source, then what belongs to it."""
    if _is_frame(data):
        names, columns = _columns(data)
        if len(names) != 2:
            raise DataError(f"data for {kind}: two columns are needed; found {listed(names)}.")
        first = LABELS if kind == "classes" else ("source",)
        order = -1 if names[1].lower() in first and names[0].lower() not in first else 1
        rows = list(zip(*columns[::order], strict=True))
    else:
        rows = _items(kind, data)
        strange = [row for row in rows if not isinstance(row, list | tuple) or len(row) != 2]
        if strange:
            _refuse(kind, strange[0])
    return [(_cell(first), _cell(second)) for first, second in rows]


def _texts(kind: str, data: Any) -> list[str]:
    texts = _items(kind, data)
    return texts if texts and all(isinstance(text, str) for text in texts) else _refuse(kind, data)


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != text.rstrip("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
        raise DataError(f"data: {text[:40]!r} holds a line break, but each text is one line. Replace it by a space.")
    return text


# -- sequences with labels ---------------------------------------------------------------------------------------------


def _write_labelled(data: Any, folder: Path, per_step: bool) -> Path:
    if _is_frame(data):
        names, columns = _columns(data)
        if not all(_fits_csv(cell) for column in columns for cell in column):
            return _write_rows(folder, dict(zip(names, columns, strict=True)))
        return _write_frame(folder, names, columns)
    if isinstance(data, Mapping):
        return _write_rows(folder, {str(name): _items("labelled", column) for name, column in data.items()})
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return _write_json_lines(folder, data)
    if not isinstance(data, tuple) or len(data) != 2:
        _refuse("labelled", data)
    sequences, labels = data
    named = {} if labels is None else {"label": _labels(labels, per_step)}
    if _is_frame(sequences) or getattr(sequences, "ndim", 1) > 1:
        values = _numbers(sequences)
        if values.ndim > 3:
            raise DataError(f"data: sequences are numbers [N, T] or [N, T, D]; got {list(values.shape)}.")
        if not per_step:
            return _write_arrays(folder, values, named.get("label"))
        sequences = values
    sequences = _items("labelled", sequences)
    if not sequences:
        raise DataError("data: there is no sequence. Give at least one.")
    first = sequences[0]
    is_tokens = isinstance(first, list | tuple | np.ndarray) and len(first) and isinstance(first[0], str)
    name = "text" if isinstance(first, str) else "tokens" if is_tokens else "values"
    return _write_rows(folder, {name: sequences if name != "values" else [_numbers(one) for one in sequences]} | named)


def _fits_csv(cell: Any) -> bool:
    if isinstance(cell, str):
        return len(cell) <= csv.field_size_limit()
    return not isinstance(cell, list | tuple | np.ndarray)


def _labels(labels: Any, per_step: bool) -> list[Any]:
    """The names of classes, or a list of them for each sequence."""
    found = _items("labelled", labels)
    if per_step:
        return [_labels(each, False) for each in found]
    names = [_cell(label).strip() for label in found]
    if "" in names:
        raise DataError(f"data: label {names.index('') + 1} of {len(names)} is missing. Give it, or leave it out.")
    return names


def _write_arrays(folder: Path, x: Array, labels: list[str] | None) -> Path:
    if labels is not None:
        _check_lengths({"sequences": x, "labels": labels})
    file, arrays = io.BytesIO(), {"x": x} if labels is None else {"x": x, "y": np.array(labels)}
    np.savez(file, allow_pickle=False, **arrays)
    return write_file(folder / "data.npz", file.getvalue())


def _write_rows(folder: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    _check_lengths(columns)
    rows = zip(*columns.values(), strict=True)
    return _write_json_lines(folder, [dict(zip(columns, row, strict=True)) for row in rows])


def _write_json_lines(folder: Path, rows: Iterable[Any]) -> Path:
    try:
        return write_file(folder / "data.jsonl", "".join(f"{json.dumps(_plain(row))}\n" for row in rows))
    except RecursionError:
        raise DataError("data: these lists are nested too deeply to be written. Give bracketed texts.") from None


def _check_lengths(columns: Mapping[str, Sequence[Any] | Array]) -> None:
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"data: found {', '.join(f'{n} {name}' for name, n in sizes.items())}. Give as many of each.")


# -- tables: events, series, rows with a class ---------------------------------------------------------------------------


def _write_events(data: Any, folder: Path) -> Path:
    if _is_frame(data):
        return _write_frame(folder, *_columns(data))
    rows = _items("events", data)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        _refuse("events", data)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _write_frame(folder, [str(name) for name in names], [[row.get(name) for row in rows] for name in names])


def _write_series(data: Any, folder: Path) -> Path:
    """A column for each channel; the dates of an index become a column of times."""
    columns: Sequence[Sequence[Any] | Array]
    if _is_frame(data):
        names, columns = _columns(data)
    elif hasattr(data, "to_list"):
        names, columns = [str(data.name or "")], [data.to_list()]
    else:
        values = _numbers(data)
        if values.ndim not in (1, 2):
            raise DataError(f"data: a series is numbers [T] or [T, C]; got {list(values.shape)}.")
        names, columns = [""] * (values.ndim == 1 or values.shape[1]), [*values.reshape(len(values), -1).T]
    names = _not_numbers(names)
    index: Any = getattr(data, "index", None)
    index = index.to_timestamp() if hasattr(index, "to_timestamp") else index  # periods
    if getattr(getattr(index, "dtype", None), "kind", "") == "M":
        lower = [name.lower() for name in names]
        name = next(each for each in (str(index.name).lower(), "time", *TIMES) if each in TIMES and each not in lower)
        names, columns = [name, *names], [index.to_list(), *columns]
    return _write_frame(folder, names, columns, missing="nan")


def _write_table(data: Any, folder: Path) -> Path:
    columns: Sequence[Sequence[Any] | Array]
    if _is_frame(data):
        names, columns = _columns(data)
        return _write_frame(folder, _not_numbers(names), columns)
    if not isinstance(data, tuple) or len(data) != 2:
        _refuse("table", data)
    labels = _labels(data[1], per_step=False)
    if _is_frame(data[0]):
        names, columns = _columns(data[0])
    else:
        x = _numbers(data[0])
        if x.ndim in (3, 4):
            return _write_arrays(folder, x, labels)
        if x.ndim != 2:
            raise DataError(f"data: X is a table [N, D] or images [N, H, W] or [N, C, H, W]; got {list(x.shape)}.")
        names, columns = [""] * x.shape[1], [*x.T]
    return _write_frame(folder, [*_not_numbers(names), "label"], [*columns, labels])


def _not_numbers(names: list[str]) -> list[str]:
    """Names that are not mistaken for a row of numbers; like columns without a name, those are numbered."""
    if all(name and finite_number(name) is None for name in names):
        return names
    return [f"column {k}" for k in range(1, len(names) + 1)]


def _write_frame(
    folder: Path, names: Sequence[str], columns: Sequence[Sequence[Any] | Array], missing: str = ""
) -> Path:
    for name in names:
        if not name.strip() or any(mark in name for mark in ',;|"\t\r\n') or names.count(name) > 1:
            raise DataError(
                f"data: the column {quoted(name)} needs a name of its own, without , ; | or quotes. Rename it."
            )
    _check_lengths(dict(zip(names, columns, strict=True)))
    rows = zip(*([_cell(cell) or missing for cell in column] for column in columns), strict=True)
    return write_file(folder / "data.csv", csv_text(names, rows))


# -- music -------------------------------------------------------------------------------------------------------------


def _write_rolls(data: Any, folder: Path) -> Path:
    if not isinstance(data, Mapping) or not set(data) <= set(PARTS):
        _refuse("rolls", data)
    notes = {part: [_notes(piece) for piece in data.get(part, [])] for part in PARTS}
    return write_file(folder / "data.json", json.dumps(notes))


def _notes(piece: Any) -> Any:
    if not isinstance(piece, Tensor | np.ndarray):
        return _plain(piece)
    roll = _numbers(piece)
    if roll.ndim != 2 or roll.shape[1] != KEYS or not np.isin(roll, (0, 1)).all():
        raise DataError(f"data: a piece is rows of {KEYS} numbers, 0 or 1; got {list(roll.shape)}.")
    return [(np.flatnonzero(frame) + LOWEST).tolist() for frame in roll]


# -- objects -----------------------------------------------------------------------------------------------------------


def _refuse(kind: str, data: object) -> NoReturn:
    raise OptionError(f"data for {kind}: {TAKES[kind]} is needed; got {type(data).__name__} {quoted(data)}.")


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "to_dict")


def _columns(frame: Any) -> tuple[list[str], list[list[Any]]]:
    return [str(name) for name in frame.columns], [frame[name].to_list() for name in frame.columns]


def _items(kind: str, data: Any) -> list[Any]:
    """The items of a list, an array, a tensor or a column."""
    data = _numbers(data) if isinstance(data, Tensor) else data
    if isinstance(data, list | tuple) or (isinstance(data, np.ndarray) and data.ndim):
        return list(data)
    return list(data.to_list()) if hasattr(data, "to_list") else _refuse(kind, data)


def _numbers(data: Any) -> Array:
    """An array of numbers of the type that they have."""
    if isinstance(data, Tensor):
        data = data.detach().cpu()
        data = data.float() if data.dtype == torch.bfloat16 else data  # NumPy has no such type
    try:
        found = np.asarray(data.to_numpy() if hasattr(data, "to_numpy") else data)
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)  # which drops a part of the numbers
            found = found.astype(np.float64) if found.dtype == object else found
    except (TypeError, ValueError, OverflowError, np.exceptions.ComplexWarning) as error:
        raise DataError(f"data: numbers were expected; found {quoted(data)} ({error!s:.80}).") from None
    if found.dtype.kind not in "biuf":
        raise DataError(f"data: numbers were expected; found {found.dtype}.")
    return found.astype(np.int8) if found.dtype == bool else found


def _cell(value: Any) -> str:
    """A cell of a table as text; empty where the value is missing."""
    value = value.item() if isinstance(value, Tensor | np.generic) and not isinstance(value, np.datetime64) else value
    is_plain = isinstance(value, str | int | float | Decimal | UUID | np.datetime64) or hasattr(value, "strftime")
    if not is_plain and value is not None and type(value).__name__ != "NAType":
        raise DataError(f"data: a text, a number or a time was expected; found {quoted(value)}.")
    if value is None or type(value).__name__ == "NAType" or value != value:  # NaN and NaT differ from themselves
        return ""
    if not isinstance(value, float):
        return str(int(value) if isinstance(value, bool) else value)
    # 20120403.12 would be read as a date; 2.012040312e+07 is not
    return np.format_float_scientific(value) if 1e7 <= value < 1e8 else repr(value)


def _plain(value: Any) -> Any:
    """What JSON can hold: lists and dicts of texts and numbers, `None` where a value is missing."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    value = _numbers(value) if isinstance(value, Tensor) else value
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = int(value) if isinstance(value, bool) else value
    return value if isinstance(value, str | int | float) and value == value else _cell(value) or None


def _utf8(text: str) -> bytes:
    """UTF-8, as the readers take it: without zero bytes, and with a mark before a text that itself begins with one."""
    if "\0" in text:
        raise DataError("data: a text holds a zero byte, which no text file does. Leave it out.")
    try:
        return text.encode("utf-8-sig" if text.startswith("\ufeff") else "utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"data: {text[error.start]!r} is half a character. Leave it out.") from None
