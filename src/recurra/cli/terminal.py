"""What a terminal is shown: text of data, labels and names may hold sequences that move its cursor, or worse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from recurra.results import visible


class _Shown:
    """A stream on which control characters are written out; everything else is the stream's own."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def shown() -> Iterator[None]:
    """Within the block, what is printed on standard output shows its control characters instead of sending them."""
    before = sys.stdout
    sys.stdout = cast(TextIO, _Shown(before))
    try:
        yield
    finally:
        sys.stdout = before


def raw_output() -> TextIO:
    """Standard output itself, for who writes colours on purpose and cleans the text between them."""
    return sys.stdout.stream if isinstance(sys.stdout, _Shown) else sys.stdout
