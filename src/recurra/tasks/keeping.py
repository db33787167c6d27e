"""What a training keeps in its folder, through disks that fill up and folders that cannot be written for a while.

A row or a checkpoint that cannot be written is kept in memory and tried again with the next one; training goes on, and says so.
After some saves in a row that failed it stops, and so it does at once where the folder itself is gone: the last checkpoint that
was saved is what a resume goes on from. Rows are always written before the checkpoint of their step.
"""

from __future__ import annotations

from typing import Any

from recurra.errors import RunError
from recurra.runs.checkpoint import Checkpoint
from recurra.runs.folder import RunFolder
from recurra.tasks.progress import Display
from recurra.tasks.tensorboard import Board

PATIENCE = 3
"""Saves in a row that may fail."""
MOST_ROWS = 100_000
"""Rows that are kept in memory; beyond them training stops."""


class Keeper:
    """Writes rows and checkpoints; without a folder nothing is kept."""

    def __init__(self, folder: RunFolder | None, board: Board | None, display: Display):
        self.folder, self.board, self.display = folder, board, display
        self._rows: list[dict[str, Any]] = []
        self._best: Checkpoint | None = None  # one that could not be saved yet
        self._failed = 0
        self._trouble: RunError | None = None

    def row(self, row: dict[str, Any]) -> None:
        if self.board is not None:
            self.board.add(row)
        if self.folder is not None:
            self._rows.append(row)
            self._write_rows()

    def _write_rows(self) -> bool:
        if self.folder is None or not self._rows:
            return True
        try:
            self.folder.append(self._rows)
        except RunError as error:
            if len(self._rows) > MOST_ROWS or not self.folder.path.is_dir():
                raise self._gone(error) from error
            if self._trouble is None:
                self.display.say(f"{error} Training goes on, and it is tried again.")
            self._trouble = error
            return False
        self._rows = []
        self._trouble = None
        return True

    def save(self, checkpoint: Checkpoint, *, is_best: bool) -> None:
        if self.folder is None:
            return
        best: bool | Checkpoint = is_best or self._best or False
        try:
            if not self._write_rows() and self._trouble is not None:
                raise self._trouble  # a checkpoint must not outlive the rows of its past
            self.folder.save(checkpoint, best=best)
        except RunError as error:
            self._failed += 1
            if self._failed >= PATIENCE or not self.folder.path.is_dir():
                raise self._gone(error) from error
            self.display.say(f"{error} Training goes on, and saves again later.")
            if is_best:  # its weights change with the next step
                found = checkpoint.weights_only()
                self._best = Checkpoint(found.step, {name: value.clone() for name, value in found.weights.items()})
            return
        self._failed, self._best = 0, None

    def keep(self, snapshot: Checkpoint) -> None:
        """Weights of the way: training does not end for want of them."""
        if self.folder is None:
            return
        try:
            self.folder.keep(snapshot)
        except RunError as error:
            if not self.folder.path.is_dir():
                raise self._gone(error) from error
            self.display.say(f"{error} Training goes on without them.")

    def close(self, last: Checkpoint | None) -> None:
        """At the end everything must be on the disk, or it is an error."""
        if self.folder is None:
            return
        if self._rows:
            self.folder.append(self._rows)
            self._rows = []
        if self._failed and last is not None:
            self.folder.save(last, best=self._best or False)

    def _gone(self, error: RunError) -> RunError:
        if self.folder is None or self.folder.path.is_dir():
            return error
        return RunError(
            f"{self.folder.path} is gone: it was moved or removed while it was trained in. What was saved is where it went. Put "
            "it back, and go on with recurra train --resume."
        )
