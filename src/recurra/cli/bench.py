"""`recurra bench`: the group of benchmarks, and what their commands share: sizes, and a line of progress."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from recurra.errors import OptionError

if TYPE_CHECKING:
    from recurra.types import Shape

bench = typer.Typer(
    help="Measure speed: ratios in one run on this machine, agreement checked first.", no_args_is_help=True
)


def read_size(size: str) -> Shape:
    from recurra.types import Shape

    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", size)
    if not found or not all(int(part) for part in found.groups()):
        raise OptionError(f"size {size!r} cannot be read. Write batch x steps x units, such as 32x128x256.")
    B, T, H = (int(part) for part in found.groups())
    return Shape(B, T, H, H)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """One line on standard error that changes; nothing where it is not a terminal."""
    from rich.console import Console

    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda text: None
        return
    with out.status("") as status:
        yield lambda text: status.update(text)
