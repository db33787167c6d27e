"""Files that are there whole or not at all, and JSON that means the same wherever it is read."""

from __future__ import annotations

import errno
import io
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

WRITING = ".writing-"
"""What is still being written has this prefix and its writer's pid: nobody reads it, and a later writer removes it."""

_OF_WORD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def writing_name(name: str) -> str:
    return f"{WRITING}{os.getpid()}-{name}"


def is_abandoned(path: Path) -> bool:
    """Whether this was being written by a process that is gone, or by an earlier attempt of this one."""
    if not path.name.startswith(WRITING):
        return False
    pid = path.name.removeprefix(WRITING).partition("-")[0]
    if not pid.isdecimal() or int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it lives, and belongs to somebody else
        return False
    return False


def reason(error: OSError) -> str:
    """What went wrong, in the system's words."""
    return error.strerror or str(error)


def write_file(path: Path, data: bytes) -> None:
    """Write a new file down to the disk itself."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a kill, finds the old one or the new one."""
    new = path.with_name(writing_name(path.name))
    try:
        for left in path.parent.glob(f"{WRITING}*-{path.name}"):
            if is_abandoned(left):
                left.unlink()
        write_file(new, data)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def refuse_without_room(folder: Path, size: int) -> None:
    """Fail as a full disk does, before anything is written, where what is to be written has no room."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < size:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size:,} bytes are needed, and {free:,} are free")


def arrays_to_bytes(arrays: Mapping[str, Tensor]) -> bytes:
    """Arrays by name as a compressed `.npz` file."""
    data = io.BytesIO()
    ready: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in arrays.items()}
    np.savez_compressed(data, **ready)
    return data.getvalue()


def sync_folder(path: Path) -> None:
    """Make the names in a folder as lasting as the files that bear them."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def to_json(value: Any, about: str, *, pretty: bool = False) -> bytes:
    """JSON on one line with sorted keys: equal values give equal bytes. `pretty` is for people: indented, in order.

    Only what JSON gives back as it was: names that are not strings, tensors and NumPy's numbers are refused, and named.
    Tuples come back as lists. Numbers that JSON lacks are refused too: see `pack`.
    """
    _check(value, about)
    if pretty:
        return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def pack(value: Any) -> Any:
    """A copy in which the numbers that JSON lacks are words, as protobuf writes them: "NaN", "Infinity", "-Infinity"."""
    if isinstance(value, dict):
        return {key: pack(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    if isinstance(value, dict):
        return {key: unpack(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unpack(inner) for inner in value]
    return _OF_WORD.get(value, value) if isinstance(value, str) else value


def _check(value: Any, about: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{about} has the key {key!r}; JSON would turn it into a string. Use str({key!r}).")
            _check(inner, f"{about}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for k, inner in enumerate(value):
            _check(inner, f"{about}[{k}]")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"{about} is a {type(value).__name__}, which JSON cannot hold. Pass a plain number or string.")
