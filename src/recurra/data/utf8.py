"""Bytes of a file, or of standard input, and their text: always UTF-8, whatever the machine's own encoding is."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from recurra.errors import DataError


def read_bytes(path: str | Path) -> bytes:
    """What a file holds, unpacked if its name ends in `.gz`."""
    try:
        data = Path(path).read_bytes()
        return gzip.decompress(data) if str(path).endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def decode(data: bytes, about: str, line: int = 1) -> str:
    """The text, without a mark of its encoding. Bytes that are not UTF-8 are refused by the line that they stand in.

    - `about`: what is read, for the message. `line`: the number of its first line.

    ```python
    decode(b"caf\\xe9", "menu.txt")  # DataError: menu.txt, line 1: byte 0xe9 is not UTF-8. …
    ```
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line += len(re.findall(rb"\r\n|\r|\n", before))
        byte = f"0x{error.object[error.start]:02x}"
        raise DataError(f"{about}, line {line}: byte {byte} is not UTF-8. Convert it to UTF-8.") from None
