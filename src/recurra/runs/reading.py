"""Reading files of a run folder that anybody may have written: bounded, and one line where they cannot be used."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from recurra.errors import RunError
from recurra.runs.disk import reason

LARGEST = 1 << 30
"""Bytes of a file of JSON. Vocabularies are the largest."""
DEEPEST = 64
"""Levels of objects and lists, one inside the other: far fewer than what walks through them can bear."""


def read_bounded(file: Path, most: int = LARGEST) -> bytes:
    """The bytes of a regular file; one that is larger than `most` is refused before memory is taken."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as opened:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise RunError(f"{file} is damaged: it is not a file.")
            if found.st_size > most:
                raise RunError(f"{file} has {found.st_size:,} bytes; at most {most:,} are read.")
            if not fits_in_memory(found.st_size):
                raise RunError(f"{file} has {found.st_size:,} bytes, more than half of this machine's memory.")
            return opened.read(found.st_size)
    except OSError as error:
        raise RunError(f"{file} cannot be read: {reason(error)}.") from error
    except ValueError as error:  # a name with a zero byte
        raise RunError(f"{str(file)!r} cannot be read: {error}.") from error


def fits_in_memory(size: int) -> bool:
    """Whether a file of so many bytes can be read and made something of. The system gives more memory than there is, and then
    ends the process that uses it."""
    return 2 * size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def read_object(file: Path, most: int = LARGEST) -> dict[str, Any]:
    """The object in a file of JSON. NaN, nesting without end and anything else that is not one are damage."""
    data = read_bounded(file, most)
    try:
        value = json.loads(data, parse_constant=_refuse)
    except ValueError as error:
        raise RunError(f"{file} is damaged: {str(error)[:100]}.") from error
    except RecursionError:
        raise RunError(f"{file} is damaged: it is nested too deep.") from None
    if not isinstance(value, dict):
        raise RunError(f"{file} is damaged: expected an object, found {type(value).__name__}.")
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise RunError(f"{file} is damaged: it is nested too deep.")


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
