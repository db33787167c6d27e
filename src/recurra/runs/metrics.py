"""The log of a run: one row, one line of JSON. Equal rows give equal bytes.

Each line ends with a checksum of itself and of the checksum before it, `"crc":"1a2b3c4d"`: a changed byte, a lost line and
lines in another order are seen. It is in the line, so that one write adds both: there is no moment at which a kill leaves
a row without one. Logs of older versions have none, and are read as they are.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from recurra.errors import RunError
from recurra.runs.disk import pack, reason, replace_file, to_json, unpack
from recurra.runs.reading import read_bounded

CHECK = "crc"
_END = re.compile(rb',"crc":"([0-9a-f]{8})"}$')
_SIZE = len(b',"crc":"01234567"}')
_NUMBERS = ("loss", "valid", "gradient_norm", "learning_rate")
_FURTHEST = 2**53
LARGEST = 1 << 36


@dataclass(frozen=True)
class Log:
    """The rows that are sound, and the numbers of the lines that are not."""

    rows: list[dict[str, Any]]
    damaged: list[int]


def append_rows(file: Path, rows: list[dict[str, Any]], run: str | None = None) -> None:
    """Add rows at the end in one write; on an error the file is as it was.

    - `run`: what the checksum of the first line goes on from, so that the log of another run is not taken for this one's.
    """
    for row in rows:
        if type(row.get("step")) is not int or CHECK in row:
            raise TypeError(f"a row of metrics needs a whole number as its step, and no {CHECK!r}; got {row!r}.")
    bodies = [to_json(pack(row), "metrics")[:-1] for row in rows]
    if not bodies:
        return
    try:
        # another name for a file elsewhere, which must not grow
        if os.path.lexists(file) and file.lstat().st_nlink > 1:
            replace_file(file, read_bounded(file, LARGEST))
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        try:
            end = _trim(handle)
            data = _chain(bodies, _last_check(handle, end) if end else run or "")
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


def read_rows(file: Path, *, checked: bool = False, run: str | None = None) -> Log:
    """Every sound row, in order. A last line that is still being written is left out.

    - `checked`: every line must have its checksum; otherwise those before the first that has one need none. `run`: as for
      `append_rows`; where it is not known, the checksum of the first line is not verified.
    """
    rows, damaged = [], []
    for number, (line, is_sound) in enumerate(_verified(_lines(file), checked, run), start=1):
        row = parse_row(line) if is_sound else None
        if row is None:
            damaged.append(number)
        else:
            rows.append(row)
    return Log(rows, damaged)


def glance(file: Path, *, checked: bool = False, run: str | None = None, parsed: bool = False) -> Log:
    """The last row, and all with a validation: what a list of runs shows. Checksums are verified, and only these lines parsed.

    - `parsed`: lines without a checksum are parsed too.
    """
    rows, damaged, last = [], [], None
    for number, (line, is_sound) in enumerate(_verified(_lines(file), checked, run), start=1):
        if not is_sound or (parsed and not line.endswith(b'"}') and parse_row(line) is None):
            damaged.append(number)
        elif b'"valid":' in line:
            last = None
            row = parse_row(line)
            damaged += [number] if row is None else []
            rows += [] if row is None else [row]
        else:
            last = line
    row = None if last is None else parse_row(last)
    return Log(rows if row is None else [*rows, row], damaged)


def rewind_rows(file: Path, step: int, run: str | None = None) -> list[int]:
    """Drop the rows after `step` and whatever is not a sound row; the bytes of the rest stay as they are, unless a row among
    them was lost, which breaks the chain of checksums. The numbers of the damaged lines."""
    lines = _lines(file)
    kept, damaged, broken = [], [], False
    for number, (line, is_sound) in enumerate(_verified(lines, False, run), start=1):
        row = parse_row(line) if is_sound else None
        if row is None:
            damaged.append(number)
            broken = True
        elif row["step"] <= step:
            kept.append(line)
    # rows after the step that stand between others were not written by one training: chain anew as well
    broken = broken or kept != lines[: len(kept)]
    data = b"".join(line + b"\n" for line in kept)
    if broken and any(_END.search(line) for line in kept):
        data = _chain([_body(line) for line in kept], run or "")
    try:
        if file.exists() and data != file.read_bytes():
            replace_file(file, data)
    except OSError as error:
        raise RunError(f"{file} cannot be rewound: {reason(error)}.") from error
    return damaged


def _chain(bodies: list[bytes], check: str) -> bytes:
    """Lines with their checksums, after the line with that one."""
    made = []
    for body in bodies:
        check = _checksum(body, check)
        made.append(b'%s,"crc":"%s"}\n' % (body[:-1], check.encode()))
    return b"".join(made)


def _checksum(body: bytes, before: str) -> str:
    return f"{zlib.crc32(body, zlib.crc32(before.encode())):08x}"


def _body(line: bytes) -> bytes:
    return line[:-_SIZE] + b"}" if _END.search(line) else line


def _check_of(line: bytes) -> str:
    found = _END.search(line[-_SIZE:])
    return found[1].decode() if found else ""


def _verified(lines: list[bytes], checked: bool, run: str | None) -> Iterator[tuple[bytes, bool]]:
    """Each line, and whether its checksum is right; one without is, where none is asked for and none came before."""
    crc32, find = zlib.crc32, _END.search
    before: bytes | None = None if run is None else run.encode()
    for line in lines:
        found = find(line, max(0, len(line) - _SIZE))
        if found:
            check = found[1]
            yield line, before is None or b"%08x" % crc32(b"}", crc32(line[:-_SIZE], crc32(before))) == check
            checked, before = True, check
        else:
            yield line, not checked
            before = b""


def _last_check(handle: int, end: int) -> str:
    size = min(end, _SIZE + 1)
    return _check_of(os.pread(handle, size, end - size)[:-1]) if size else ""


def _lines(file: Path) -> list[bytes]:
    """The whole lines: what follows the last line's end is half a line."""
    if not os.path.lexists(file):
        return []
    try:
        return read_bounded(file, LARGEST).split(b"\n")[:-1]
    except MemoryError as error:
        raise RunError(f"{file} cannot be read: it is larger than the memory.") from error


def parse_row(line: bytes) -> dict[str, Any] | None:
    """The row on a line; `None` if it is not one."""
    try:
        row = json.loads(_body(line))
        found: dict[str, Any] = unpack(row)
    except (ValueError, RecursionError):
        return None
    return found if has_step(row) and all(is_number(found.get(name, 0)) for name in _NUMBERS) else None


def has_step(row: Any) -> bool:
    """Whether this is an object of a step that there can be."""
    return isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] <= _FURTHEST


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number that a curve can show: JSON has integers of any size."""
    return type(value) is float or (type(value) is int and abs(value) <= _FURTHEST)


def _trim(handle: int) -> int:
    """Cut off half a line that a killed writer left at the end; the size that remains."""
    end = os.fstat(handle).st_size
    if end and os.pread(handle, 1, end - 1) != b"\n":
        end = os.pread(handle, end, 0).rfind(b"\n") + 1
        os.ftruncate(handle, end)
    return end
