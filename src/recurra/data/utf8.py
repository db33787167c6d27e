"""Bytes of a file, or of standard input, as text: always UTF-8, whatever the machine's own encoding is."""

from __future__ import annotations

import re

from recurra.errors import DataError


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
