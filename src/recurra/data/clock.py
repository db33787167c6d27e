"""The times of a series: evenly spaced, so that those of the steps to come are known too."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from recurra.data.comma_separated import finite_number
from recurra.data.events import read_moment
from recurra.errors import DataError

CLOSE = 1e-6
"""How far from the others a step may be, as a share of it."""


class UnevenError(DataError):
    """Times that rise in steps of several sizes; `about` is where."""

    def __init__(self, message: str, about: str = ""):
        super().__init__(message)
        self.about = about


@dataclass(frozen=True)
class Clock:
    """When the last row was, and how long a step is.

    - `step`: in seconds, or in months where `monthly`; with `ends` a time is the last day of its month. `plain`: times are
      numbers, not moments.
    """

    name: str
    last: float
    step: float
    monthly: bool = False
    plain: bool = False
    ends: bool = False

    def after(self, steps: int) -> list[str]:
        """The times of the steps that follow."""
        if self.plain:
            return [f"{self.last + k * self.step:.10g}" for k in range(1, steps + 1)]
        try:
            return self._moments(steps)
        except (ValueError, OverflowError, OSError):
            raise DataError(
                f"{steps:,} steps after the last time of {self.name:.40} lie beyond the year 9999. Ask for fewer."
            ) from None

    def _moments(self, steps: int) -> list[str]:
        if self.monthly:
            began = datetime.fromtimestamp(self.last, UTC)
            months = [began.year * 12 + began.month - 1 + int(self.step) * k for k in range(1, steps + 1)]
            found = [
                began.replace(year=year, month=month, day=monthrange(year, month)[1] if self.ends else began.day)
                for year, month in ((each // 12, each % 12 + 1) for each in months)
            ]
        else:
            found = [datetime.fromtimestamp(self.last + k * self.step, UTC) for k in range(1, steps + 1)]
        days = all(each.timestamp() % 86400 == 0 for each in found)
        return [each.strftime("%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S") for each in found]


def read_clock(path: str | Path, name: str, cells: Sequence[tuple[int, str]]) -> Clock:
    """The clock of a column: the row number and the text of each cell. Times must rise in even steps, of seconds or of months."""
    moments = [read_moment(text.strip(), Path(path), row) for row, text in cells]
    if len(moments) < 2:
        raise DataError(f"{path}: {len(moments)} rows have no step from one to the next. Give more rows.")
    gaps = [after - before for before, after in pairwise(moments)]
    plain = all(finite_number(text) is not None for _, text in cells)
    if not plain:
        for ends in (False, True):
            months = _months(moments, ends)
            if months is not None:
                return Clock(name, moments[-1], months, monthly=True, ends=ends)
    usual = sorted(gaps)[len(gaps) // 2]
    for (row, text), gap in zip(cells[1:], gaps, strict=True):
        if gap <= 0:
            raise DataError(
                f"{path}, row {row}: {name:.40} {text.strip():.40} does not come after the row before. Sort them."
            )
    unit = "" if plain else " s"
    for (row, text), gap in zip(cells[1:], gaps, strict=True):
        if abs(gap - usual) > CLOSE * usual:
            raise UnevenError(
                f"{path}, row {row}: {name:.40} {text.strip():.40} is {gap:g}{unit} after the row before, where a step is "
                f"{usual:g}{unit}. Add the rows that are missing, with empty cells.",
                f"{gap:g}{unit} where most are {usual:g}{unit}",
            )
    return Clock(name, moments[-1], usual, plain=plain)


def _months(moments: Sequence[float], ends: bool) -> int | None:
    """How many months a step has, where all have as many: on the same day, or the last of the month, and at the same time."""
    found = [datetime.fromtimestamp(each, UTC) for each in moments]
    days = {each.day - monthrange(each.year, each.month)[1] if ends else each.day for each in found}
    if len({each.time() for each in found}) > 1 or (days != {0} if ends else len(days) > 1 or max(days) > 28):
        return None
    counts = [each.year * 12 + each.month for each in found]
    gaps = {after - before for before, after in pairwise(counts)}
    return gaps.pop() if len(gaps) == 1 and min(gaps) > 0 else None
