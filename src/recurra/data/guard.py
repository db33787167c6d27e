"""The door that every file comes through. Whatever a file holds, the outcome is data, or a `DataError` of one short line.

What is known to go wrong is refused where it arises, by line and column. The door is for the rest. It wraps reading alone, so
that a fault elsewhere is not taken for one of the data.
"""

from __future__ import annotations

import csv
import functools
import gzip
import inspect
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar
from xml.parsers import expat

from recurra.data.limits import check_limit, limits
from recurra.errors import DataError, RecurraError, one_line

PATH = 100
"""Characters of a path in a message; of a longer one, its end."""
PART = 1 << 20
"""Bytes that are read at a time."""

UNREADABLE = (
    ValueError,  # also bytes that are not text, and JSON
    LookupError,
    ArithmeticError,
    TypeError,
    EOFError,
    NotImplementedError,  # an unknown compression in a zip file
    RuntimeError,  # an encrypted one
    SyntaxError,
    SystemError,
    struct.error,
    zlib.error,
    csv.Error,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    expat.ExpatError,
    tokenize.TokenError,
)

P = ParamSpec("P")
R = TypeVar("R")

READERS: dict[str, Callable[..., Any]] = {}
"""Every function that reads a file, by its name. Tests feed each of them with broken files."""


def reads(function: Callable[P, R]) -> Callable[P, R]:
    """Put the door before a function whose first argument is a path (or what stands for one in messages)."""

    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        signature.bind(*args, **kwargs)  # a call that does not fit is the caller's fault, not the file's
        with door(str(args[0] if args else next(iter(kwargs.values()), "the data"))):
            return function(*args, **kwargs)

    READERS[function.__name__] = guarded
    return guarded


@contextmanager
def door(about: str) -> Iterator[None]:
    """Whatever goes wrong inside while `about` is read becomes an error of one short line."""
    if "\0" in about:
        raise DataError(tidy(f"{about} cannot be read: no path holds a zero byte. Check the path.", about))
    try:
        yield
    except RecurraError as error:
        message = tidy(str(error), about)
        if message == str(error):
            raise
        shorter = type(error)(message)
        shorter.__dict__.update(error.__dict__)  # where it was found, for whoever goes on without it
        raise shorter from error.__cause__
    except MemoryError:
        raise DataError(tidy(f"{about} takes more memory than there is. Give a smaller file.", about)) from None
    except RecursionError:
        raise DataError(tidy(f"{about} is nested too deeply to be read. Flatten it.", about)) from None
    except OSError as error:
        found = error.strerror or str(error) or type(error).__name__
        raise DataError(tidy(f"{about} cannot be read ({found}). Check the path and the file.", about)) from error
    except UNREADABLE as error:
        found = " ".join(str(error).split())[:100] or type(error).__name__
        raise DataError(
            tidy(f"{about} cannot be read ({found}). The file is damaged or of another kind.", about)
        ) from error


def tidy(message: str, about: str = "") -> str:
    """A message about a file: one short line, with the end of its path where that is long."""
    return one_line(message.replace(about, f"…{about[-PATH:]}") if len(about) > PATH else message)


# -- bytes of a file ---------------------------------------------------------------------------------------------------


class Source(Protocol):
    """What bytes are read from."""

    def read(self, size: int = -1, /) -> bytes: ...


class Limited:
    """The bytes of a stream, refused once they are more than a limit allows."""

    def __init__(self, stream: Source, path: str | Path, limit: str):
        self.stream, self.path, self.limit = stream, path, limit
        self.most, self.count = getattr(limits(), limit), 0

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return b"".join(iter(lambda: self.read(PART), b""))
        data = self.stream.read(size)
        self.count += len(data)
        if self.count > self.most:
            check_limit(self.limit, self.count, str(self.path))
        return data


@contextmanager
def open_file(path: str | Path) -> Iterator[Limited]:
    """The bytes of a file, unpacked if its name ends in `.gz`."""
    check_file(path)
    with Path(path).open("rb") as plain:
        if not str(path).endswith(".gz"):
            yield Limited(plain, path, "file")
            return
        try:
            with gzip.open(plain) as packed:
                yield Limited(packed, path, "unpacked")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path} was read as gzip, but it is damaged ({error}). Rename or replace it.") from error


def check_file(path: str | Path) -> None:
    """Refuse what is no file, what never ends, and what is larger than a file may be, before it is opened."""
    found = Path(path).stat()
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"{path} cannot be read: it is a folder. Name a file.")
    is_pipe = stat.S_ISFIFO(found.st_mode) and re.match(r"/(dev/(fd/|stdin)|proc/)", str(path))
    if not stat.S_ISREG(found.st_mode) and not is_pipe:
        raise DataError(f"{path} is a device or a pipe, which may never end. Name a file.")
    check_limit("file", found.st_size, str(path))


def read_bytes(path: str | Path) -> bytes:
    """What a file holds, unpacked if its name ends in `.gz`."""
    with open_file(path) as stream:
        return stream.read()


def unpack(data: bytes, where: str) -> bytes:
    """What zlib packed, refused before it is larger than the limit."""
    most = limits().unpacked
    made = zlib.decompressobj().decompress(data, most + 1)
    if len(made) > most:
        check_limit("unpacked", len(made), where)
    return made


__all__ = ["READERS", "Limited", "check_file", "door", "open_file", "read_bytes", "reads", "tidy", "unpack"]
