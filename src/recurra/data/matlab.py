"""Cell arrays from MATLAB's files of level 5 (`.mat`), as several collections of music and of time series are kept.

The format: MathWorks, "MAT-File Format", levels 5 and 7; those of level 7.3 are HDF5 and another thing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recurra.data.guard import read_bytes, reads, unpack
from recurra.data.limits import check_limit
from recurra.errors import DataError

TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15
CELLS, NUMBERS = 1, range(6, 16)
"""Classes of arrays: of other arrays, and of numbers."""
DEPTH = 16
"""Cell arrays and packed elements, one inside the other."""


@reads
def read_cells(path: str | Path) -> dict[str, list[npt.NDArray[Any]]]:
    """The cell arrays of numbers in a file, by name; everything else in it is left out.

    ```python
    read_cells("JSB_Chorales.mat")["traindata"][0].shape      # (129, 88)
    ```
    """
    data = read_bytes(path)
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or data[:10] != b"MATLAB 5.0":
        raise DataError(f"{path} is no MATLAB file of level 5. Save it with save('FILE.mat', '-v7').")
    try:
        made = (
            _matrix(each, order, str(path)) for kind, each in _elements(data[128:], order, str(path)) if kind == MATRIX
        )
        return {name: value for name, value in made if isinstance(value, list)}
    except (struct.error, zlib.error, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{path} is damaged: {error}. Get it again.") from error


def _elements(data: bytes, order: str, where: str, depth: int = 0) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each element, unpacked."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # a small one: its size stands beside its kind, its content where the size would be
            kind, size, start, after = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start = at + 8
            after = start + size if kind == COMPRESSED else start + -(-size // 8) * 8
        if start + size > len(data):
            raise ValueError("it ends too early")
        content = data[start : start + size]
        if kind == COMPRESSED:
            _check_depth(depth)
            yield from _elements(unpack(content, where), order, where, depth + 1)
        else:
            yield kind, content
        at = after


def _check_depth(depth: int) -> None:
    if depth >= DEPTH:
        raise ValueError(f"more than {DEPTH} levels, one inside the other")


def _next(elements: Iterator[tuple[int, bytes]]) -> tuple[int, bytes]:
    found = next(elements, None)
    if found is None:
        raise ValueError("an array has too few parts")
    return found


def _matrix(data: bytes, order: str, where: str, depth: int = 0) -> tuple[str, Any]:
    """Its name, and an array, a list of arrays, or `None` for what is neither."""
    _check_depth(depth)
    elements = _elements(data, order, where, depth)
    flags = struct.unpack(f"{order}I", _next(elements)[1][:4])[0] & 0xFF
    shape = np.frombuffer(_next(elements)[1], f"{order}i4")
    name = _next(elements)[1].decode("ascii")
    if flags == CELLS:
        inside = []
        for kind, each in elements:
            if kind == MATRIX:
                inside.append(_matrix(each, order, where, depth + 1)[1])
                check_limit("members", len(inside), f"{where}, {name:.40}")
        return name, inside if all(isinstance(each, np.ndarray) for each in inside) else None
    if flags not in NUMBERS:
        return name, None
    kind, content = _next(elements)
    values = np.frombuffer(content, order + TYPES[kind])
    return name, values.reshape(shape, order="F")
