"""What an export wrote, and how well it agrees with the network that it was written from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from recurra.results import Result, Table


@dataclass(frozen=True)
class ExportedFile:
    """One file.

    - `about`: what it is. `difference`: the largest from the plain loop, relative to the values; `None` where it is not run.
    - `notes`: what else was measured.
    """

    name: str
    bytes: int
    about: str
    difference: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exported(Result):
    """The files of an export, in the order in which one reads them."""

    folder: Path
    to: str
    files: tuple[ExportedFile, ...]
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> Path:
        """The path of a file by its name."""
        return self.folder / next(each.name for each in self.files if each.name == name)

    def table(self) -> Table:
        rows = [
            [each.name, f"{each.bytes:,}", "" if each.difference is None else f"{each.difference:.1e}", each.about]
            for each in self.files
        ]
        return Table(("file", "bytes", "differs by", "what it is"), rows, f"{self.to}, in {self.folder}")

    def __str__(self) -> str:
        notes = [f"{each.name}: {note}" for each in self.files for note in each.notes]
        return "\n".join([str(self.table()), *notes, *self.notes])
