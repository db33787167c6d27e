"""The log of a run: one row, one line of JSON. Equal rows give equal bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recurra.errors import RunError
from recurra.runs.disk import pack, reason, replace_file, to_json, unpack


def append_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    """Add rows at the end in one write; on an error the file is as it was."""
    for row in rows:
        if type(row.get("step")) is not int:
            raise TypeError(f"a row of metrics needs a whole number as its step; got {row!r}.")
    data = b"".join(to_json(pack(row), "metrics") for row in rows)
    if not data:
        return
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            end = _trim(handle)
            try:
                left = data[os.write(handle, data) :]
                while left:  # a signal or a full disk cut it short: the next attempt goes on, or says which
                    left = left[os.write(handle, left) :]
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)
    except OSError as error:
        raise RunError(f"{file} cannot be written: {reason(error)}.") from error


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Every row, in order. A last line that is still being written is left out."""
    rows = []
    for number, line in enumerate(_lines(file), start=1):
        row = _row(line)
        if row is None:
            raise RunError(f"{file}: line {number} is damaged. Delete that line, or resume the run, which does.")
        rows.append(row)
    return rows


def rewind_rows(file: Path, step: int) -> None:
    """Drop the rows after `step` and whatever is not a row; the bytes of the rest stay as they are."""
    kept = [line for line in _lines(file) if (row := _row(line)) is not None and row["step"] <= step]
    data = b"".join(line + b"\n" for line in kept)
    try:
        if file.exists() and data != file.read_bytes():
            replace_file(file, data)
    except OSError as error:
        raise RunError(f"{file} cannot be rewound: {reason(error)}.") from error


def _lines(file: Path) -> list[bytes]:
    """The whole lines: what follows the last line's end is half a line."""
    try:
        return file.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{file} cannot be read: {reason(error)}.") from error


def _row(line: bytes) -> dict[str, Any] | None:
    """The row on a line; `None` if it is not one."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return unpack(row) if isinstance(row, dict) and type(row.get("step")) is int else None


def _trim(handle: int) -> int:
    """Cut off half a line that a killed writer left at the end; the size that remains."""
    end = os.fstat(handle).st_size
    if end and os.pread(handle, 1, end - 1) != b"\n":
        end = os.pread(handle, end, 0).rfind(b"\n") + 1
        os.ftruncate(handle, end)
    return end
