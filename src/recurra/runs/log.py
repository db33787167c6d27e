"""The metrics of a run while they grow: what was read stays read, and a curve is a few hundred points however long the run is."""

from __future__ import annotations

import json
import math
import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from recurra.errors import choose_from
from recurra.results import Result, Table
from recurra.runs.disk import unpack
from recurra.runs.metrics import has_step, is_number, parse_row

POINTS = 400
"""Points of a curve, at most."""
_TAIL = 20_000
"""Bytes at the end of a log in which its last rows are looked for."""
_WORDS = {word: unpack(word) for word in ("NaN", "Infinity", "-Infinity")}
_VALID = b'"valid":'


@dataclass(frozen=True, eq=False)
class Curve(Result):
    """A metric over the steps. Where there are more rows than points, each point is the mean of some neighbouring rows.

    - `steps`: the last step of each point. `low`, `high`: the smallest and the largest value of its rows.
    """

    name: str
    steps: np.ndarray[Any, Any]
    mean: np.ndarray[Any, Any]
    low: np.ndarray[Any, Any]
    high: np.ndarray[Any, Any]

    def table(self) -> Table:
        columns = (self.steps, self.mean, self.low, self.high)
        rows = [[str(int(step)), *(f"{value:.6g}" for value in rest)] for step, *rest in zip(*columns, strict=True)]
        return Table(["step", self.name, "low", "high"], rows)


@dataclass(frozen=True)
class Glance:
    """Where a run is: the last step, its loss, and the best validation."""

    step: int = 0
    loss: float | None = None
    best_valid: float | None = None


class Log:
    """A file of metrics. Lines that were read are not read again unless the file was rewound.

    `glance` looks at the end of the file and at evaluations alone, so that hundreds of long runs are listed at once; `curve`
    reads every row, once. A line that is damaged or half written is passed over. Several threads may ask.
    """

    def __init__(self, file: Path):
        self.file, self._lock = file, RLock()
        self._reset()

    def _reset(self) -> None:
        self._inode, self._glanced, self._read = -1, 0, 0
        self._glance = Glance()
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        self._curves: dict[tuple[str, int], Curve] = {}

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes when the file does."""
        try:
            found = os.stat(self.file)
        except OSError:
            return 0, 0
        return found.st_ino, found.st_size

    def glance(self) -> Glance:
        """The last step and its loss, and the best validation."""
        with self._lock:
            new = self._new(self._glanced)
            if new:
                self._glance = self._looked_at(new)
                self._glanced += len(new)
            return self._glance

    def _looked_at(self, new: bytes) -> Glance:
        last, before = _last_row(new[-_TAIL:]), self._glance
        valid = [row["valid"] for row in _rows_with(new, _VALID) if "valid" in row]
        known = [each for each in (*valid, before.best_valid) if each is not None and math.isfinite(each)]
        return Glance(last.get("step", before.step), last.get("loss", before.loss), min(known, default=None))

    def curve(self, name: str, points: int = POINTS) -> Curve:
        """One metric; a name that the log lacks is refused with those that it has."""
        with self._lock:
            self._take_in()
            steps, values = self._columns[choose_from("metric", name, self._columns)]
            if (name, points) not in self._curves:
                rows = np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)
                self._curves[name, points] = thin(name, *rows, points)
            return self._curves[name, points]

    @property
    def names(self) -> list[str]:
        """The metrics that the log has so far."""
        with self._lock:
            self._take_in()
            return list(self._columns)

    def _take_in(self) -> None:
        """Read the rows that are new."""
        new = self._new(self._read)
        if not new:
            return
        self._curves.clear()
        for row in _rows(new):
            for name, value in row.items():
                number = _WORDS.get(value) if isinstance(value, str) else value
                if name != "step" and is_number(number):
                    steps, values = self._columns.setdefault(name, (array("q"), array("d")))
                    steps.append(row["step"])
                    values.append(number)
        self._read += len(new)

    def _new(self, start: int) -> bytes:
        """The whole lines from a place on; from the beginning, where the file is another one or shorter than it was."""
        inode, size = self.stamp
        if inode != self._inode or size < max(self._glanced, self._read):
            self._reset()
            self._inode, start = inode, 0
        if size == start:
            return b""
        try:
            with self.file.open("rb") as file:
                file.seek(start)
                data = file.read()
        except OSError:
            return b""
        return data[: data.rfind(b"\n") + 1]


def thin(name: str, steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any], points: int) -> Curve:
    """Neighbouring rows as one point each, as many to each as makes `points` at most."""
    if len(values) <= points:
        return Curve(name, steps, values, values, values)
    starts = np.linspace(0, len(values), points + 1).astype(np.int64)[:-1]
    ends = np.append(starts[1:], len(values))
    mean = np.add.reduceat(values, starts) / (ends - starts)
    return Curve(name, steps[ends - 1], mean, np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))


def _rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of whole lines: all in one go, which is twice as fast; one by one where a line is damaged."""
    lines = data.split(b"\n")[:-1]
    try:
        found = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        return [_row(line) for line in lines]
    whole = len(found) == len(lines) and all(has_step(row) for row in found)
    return found if whole else [_row(line) for line in lines]


def _row(line: bytes) -> dict[str, Any]:
    """The row on a line; nothing if it is not one."""
    return parse_row(line) or {}


def _last_row(data: bytes) -> dict[str, Any]:
    """The last step, with the last loss that stands near it."""
    found: dict[str, Any] = {}
    for line in reversed(data.split(b"\n")):
        row = _row(line)
        found = {name: row[name] for name in ("step", "loss") if name in row} | found
        if "loss" in found:
            break
    return found


def _rows_with(data: bytes, mark: bytes) -> list[dict[str, Any]]:
    """The rows that bear a mark: a search in bytes, since reading every line as JSON takes a hundred times as long."""
    found, at = [], data.find(mark)
    while at >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        found.append(_row(data[begin:end]))
        at = data.find(mark, end) if end >= 0 else -1
    return found
