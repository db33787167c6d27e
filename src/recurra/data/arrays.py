"""NumPy's files, read with care: what a header declares is compared with what is there before memory is taken for it."""

from __future__ import annotations

import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recurra.data.comma_separated import LARGEST
from recurra.data.guard import Limited, check_file, door, read_bytes
from recurra.data.limits import check_limit
from recurra.errors import DataError, quoted

Array = npt.NDArray[Any]

HEADERS = {(1, 0): ("<H", np.lib.format.read_array_header_1_0), (2, 0): ("<I", np.lib.format.read_array_header_2_0)}
KINDS = "biufUS"
"""Types that are read: truth values, whole numbers, real numbers and texts."""
AXES = 4
END, END_64, LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"


def read_npy(path: Path) -> Array:
    """The array of a `.npy` file."""
    with door(str(path)):
        return _array(str(path), read_bytes(path))


def read_members(path: Path, wanted: Sequence[Sequence[str]]) -> tuple[list[Array | None], list[str]]:
    """Of an `.npz` file, for each row of names the first array that has one of them, and the names of all members."""
    with door(str(path)):
        check_file(path)
        _check_directory(path)
        try:
            with zipfile.ZipFile(path) as archive:
                members = {info.filename.removesuffix(".npy").lower(): info for info in archive.infolist()}
                chosen = [next((members[name] for name in names if name in members), None) for names in wanted]
                arrays = [None if info is None else _member(path, archive, info) for info in chosen]
                return arrays, [info.filename.removesuffix(".npy") for info in archive.infolist()]
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, UnicodeError) as error:
            raise DataError(
                f"{path} cannot be read as .npz ({str(error)[:80]}). Write it with np.savez(path, x=…, y=…)."
            ) from None


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    where = f"{path}, {info.filename:.40}"
    check_limit("unpacked", info.file_size, where)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{where} is packed in another way than np.savez packs (method {info.compress_type}). Use np.savez."
        )
    with archive.open(info) as stream:
        return _array(where, Limited(stream, where, "unpacked").read())


def _array(where: str, data: bytes) -> Array:
    """An array from the bytes of a `.npy` file."""
    magic = data[:8]
    if magic[:6] != b"\x93NUMPY" or len(data) < 12:
        found = "nothing" if not data else data[:6].hex(" ")
        raise DataError(f"{where} is no array: it begins with {found}. Write it with np.save or np.savez.")
    if (magic[6], magic[7]) not in HEADERS:
        raise DataError(f"{where} has version {magic[6]}.{magic[7]} of NumPy's format. Write it with np.save.")
    size, read = HEADERS[magic[6], magic[7]]
    length = struct.unpack_from(size, data, 8)[0]
    start = 8 + struct.calcsize(size) + length
    if start > len(data):
        raise DataError(f"{where} ends within its header. Get it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, by_column, kind = read(_Bytes(data[8:start]))
    except (ValueError, LookupError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError):
        found = quoted(data[start - length : start])
        raise DataError(f"{where} has a header that cannot be read: {found}. Write it with np.save.") from None
    if kind.kind not in KINDS or (kind.kind == "f" and kind.itemsize > 8):
        raise DataError(f"{where} holds {kind.name:.20}; numbers of up to 64 bits, or texts, are read. Convert it.")
    wanted = math.prod(shape) * kind.itemsize
    if min(shape, default=0) < 0 or wanted != len(data) - start:
        raise DataError(
            f"{where} should have {wanted:,} bytes of {kind.name} {quoted(list(shape))} by its own header; it has "
            f"{len(data) - start:,}. Get it again."
        )
    if len(shape) > AXES or not wanted:
        raise DataError(f"{where} has the shape {quoted(list(shape))}; 1 to {AXES} axes are read, none of size 0.")
    if not shape:
        raise DataError(f"{where} is a single value; an array is needed.")
    made = np.frombuffer(data, kind, offset=start)
    if kind.kind == "U":
        codes = np.frombuffer(data, f"{kind.str[0]}u4", offset=start)
        if bool(((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()):
            raise DataError(f"{where} holds texts with numbers that are no characters. Write it with np.save.")
    return made.reshape(shape, order="F" if by_column else "C").astype(kind.newbyteorder("="))


class _Bytes:
    """The least of a file that NumPy reads a header from."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def read(self, size: int = -1) -> bytes:
        end = len(self.data) if size < 0 else self.at + size
        part, self.at = self.data[self.at : end], min(end, len(self.data))
        return part


def _check_directory(path: Path) -> None:
    """Refuse an archive with too many members before its directory is read, which takes memory for each of them."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 70_000))
        tail = file.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + 16:
        raise DataError(
            f"{path} cannot be read as .npz: it is no whole zip file. Write it with np.savez(path, x=…, y=…)."
        )
    count, room = struct.unpack_from("<HI", tail, at + 10)
    if LOCATOR in tail[:at] and END_64 in tail[:at]:
        count, room = struct.unpack_from("<QQ", tail.ljust(at + 80, b"\0"), tail.rfind(END_64, 0, at) + 32)
    check_limit("members", max(count, room // 512), str(path))
    if room > size:
        raise DataError(f"{path} is only a part of a zip file. Get it again.")


def check_values(values: Array, where: str) -> None:
    """Refuse numbers that are infinite, or whose squares are; NaN is a missing value."""
    if values.dtype.kind != "f":
        return
    sizes = np.abs(values.reshape(len(values), -1))
    bad = np.flatnonzero((sizes > LARGEST if values.dtype.itemsize == 8 else np.isinf(sizes)).any(1))
    if len(bad):
        raise DataError(
            f"{where}, example {bad[0] + 1}: a value is infinite or beyond {LARGEST:g}, where squares are not finite. "
            "Correct it, or write NaN where a value is missing."
        )


def label_words(labels: Array, where: str) -> list[str]:
    """Labels as texts: whole numbers, numbers, or words, which may be bytes of UTF-8."""
    if labels.ndim != 1 or labels.dtype.kind not in KINDS:
        raise DataError(
            f"{where}: labels are whole numbers or words along one axis; found {labels.dtype.name:.20} {list(labels.shape)}."
        )
    if labels.dtype.kind != "S":
        return [str(each) for each in labels.tolist()]
    try:
        return [each.decode() for each in labels.tolist()]
    except UnicodeDecodeError:
        raise DataError(f"{where}: labels are bytes that are not UTF-8. Write them as texts (dtype str).") from None
