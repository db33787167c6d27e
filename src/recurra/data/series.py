"""Series from files: rows of numbers, one step of time each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from recurra.data.clock import Clock, UnevenError, read_clock
from recurra.data.comma_separated import fault_of, finite_number, named_rows, usable_number
from recurra.data.events import is_moment
from recurra.data.guard import read_bytes, reads
from recurra.data.utf8 import decode
from recurra.errors import DataError, OptionError, nearest, quoted
from recurra.types import Float

TIMES = ("timestamp", "time", "datetime", "date", "ds")
"""What a column of times is often called."""
COUNTED = ("year", "index", "step", "")
"""What a column of whole numbers is often called that counts the steps."""
MISSING = ("", "nan", "na", "n/a", "null", "none", "?")
"""How a value that is missing is written."""


@dataclass(frozen=True, eq=False)
class Series:
    """Columns with their names; each row is one step. NaN where a value is missing."""

    names: tuple[str, ...]
    values: Float[Tensor, "T C"]
    clock: Clock | None = None
    remarks: tuple[str, ...] = ()
    """What a reader decided: which columns were left out, and why there is no clock."""


@dataclass(frozen=True)
class Scaling:
    """What a network reads instead of values: numbers about 0, of size about 1 in training data.

    - `mean`, `scale`: of each channel, after what follows.
    - `log`: logarithms come first. `lag`: then the change from so many steps before; 0: none. The first `lag` rows are lost.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    log: bool = False
    lag: int = 0

    @classmethod
    def fit(cls, series: Series, about: str, *, log: bool = False, lag: int = 0) -> Scaling:
        """Of the values that are known. A channel without values, or with nothing that changes, is refused."""
        for name, column in zip(series.names, series.values.T, strict=True):
            if bool(column.isnan().all()):
                raise DataError(f"{about}: {name} has no value in the {len(column):,} steps to learn from. Omit it.")
            if log and bool((column <= 0).any()):
                raise DataError(f"{about}: {name} has values that are not positive. Use data.log=false.")
        plain = cls((0.0,) * len(series.names), (1.0,) * len(series.names), log, lag)
        mean, scale = [], []
        for name, column in zip(series.names, plain.shrink(series.values).T, strict=True):
            known = column[~column.isnan()]
            what = f"the change of {name} over {lag} steps" if lag else name
            if not len(known):
                raise DataError(f"{about}: {what} is never known. Leave it out, or data.difference.")
            if bool((known == known[0]).all()):
                raise DataError(
                    f"{about}: {what} is always the same in the {len(series.values):,} steps to learn from. "
                    "There is nothing to learn in it: leave it out with data.columns."
                )
            mean.append(float(known.mean()))
            scale.append(float(known.std()))
            if not (0 < scale[-1] < math.inf and math.isfinite(mean[-1])):
                raise DataError(
                    f"{about}: {what} changes by too little or too much to be scaled (a deviation of {scale[-1]:g}). "
                    "Give it in another unit."
                )
        return cls(tuple(mean), tuple(scale), log, lag)

    def shrink(self, values: Float[Tensor, "*B T C"]) -> Float[Tensor, "*B N C"]:
        """What the network reads; a value that has no logarithm is missing."""
        values = torch.where(values > 0, values, torch.nan).log() if self.log else values
        values = values[..., self.lag :, :] - values[..., : values.shape[-2] - self.lag, :] if self.lag else values
        return (values - values.new_tensor(self.mean)) / values.new_tensor(self.scale)

    def restore(self, paths: Float[Tensor, "B S K C"], known: Float[Tensor, "B T C"]) -> Float[Tensor, "B S K C"]:
        """Values in float64 from what the network drew after it had read what was known."""
        paths = paths.double().cpu()
        paths = paths * paths.new_tensor(self.scale) + paths.new_tensor(self.mean)
        if self.lag:
            K = paths.shape[2]
            last = filled(known.double(), -2)[:, -self.lag :]
            last = (last.clamp(min=1e-300).log() if self.log else last)[:, None, None]
            rounds = torch.nn.functional.pad(paths, (0, 0, 0, -K % self.lag)).unflatten(2, (-1, self.lag))
            paths = (last + rounds.cumsum(2)).flatten(2, 3)[:, :, :K]
        return paths.exp() if self.log else paths


def filled(values: Float[Tensor, "*N"], time: int = 0) -> Float[Tensor, "*N"]:
    """Missing values replaced by the last known one along the axis of time; 0 before the first."""
    values = values.movedim(time, 0)
    T = len(values)
    steps = torch.arange(T).view(T, *[1] * (values.ndim - 1)).expand_as(values)
    last = torch.where(values.isnan(), -1, steps).cummax(0).values
    return torch.where(last >= 0, values.gather(0, last.clamp(min=0)), 0).movedim(0, time)


@reads
def read_series(path: str | Path, columns: Sequence[str] = ()) -> Series:
    """A CSV file (commas, semicolons or tabs) in float64. A first row without a single number names the columns.

    - `columns`: the names of those to read, in this order; all otherwise. The others may hold anything.
    """
    names, rows = _rows(path)
    return _read(path, names, rows, _find(path, names, columns))


@reads
def read_timed_series(path: str | Path, columns: Sequence[str] = (), time: str | None = None) -> Series:
    """The same, with values that may be missing (empty, `nan`, `NA`, `?`), and with times that are read as such. Columns
    without a single number are left out, unless they are among `columns`.

    - `time`: the column of times, which must be even steps apart. Without it, one with a usual name (`date`, `timestamp`, …), or
      else the first that holds times or counts the steps; where its steps are uneven (working days), each row is a step.

    ```python
    from pathlib import Path

    Path("load.csv").write_text("time,load\\n2024-01-01,3.5\\n2024-01-02,\\n2024-01-03,4\\n")
    rc.data.read_timed_series("load.csv").values                    # the second is missing: NaN
    ```
    """
    names, rows = _rows(path)
    when = _find(path, names, (time,))[0] if time is not None else _times(names, rows, columns)
    places = [place for place in _find(path, names, columns) if place != when]
    texts = [] if columns else [place for place in places if _is_text(rows, place)]
    if len(texts) == len(places):
        texts = []  # of nothing else: they are refused below, with what they hold
    places = [place for place in places if place not in texts]
    if not places:
        raise DataError(f"{path} has no column of numbers beside {quoted(names[when or 0])}. Give one to forecast.")
    series = _read(path, names, rows, places, gaps=True)
    if texts:
        series = replace(series, remarks=(f"without {', '.join(f'{names[k]:.40}' for k in texts)} (no numbers)",))
    if when is None:
        return series
    try:
        return replace(series, clock=read_clock(path, names[when], [(line, row[when]) for line, row in rows]))
    except UnevenError as error:
        if time is not None:
            raise
        return replace(
            series, remarks=(*series.remarks, f"steps of {names[when]:.40} are uneven ({error.about}): each row is one")
        )


def _times(names: list[str], rows: list[tuple[int, list[str]]], columns: Sequence[str]) -> int | None:
    """The column of times, if one looks like it."""
    free = [place for place, name in enumerate(names) if name not in columns]
    for place in free:
        if names[place].lower() in TIMES:
            return place
    for place in free:
        cells = [row[place] for _, row in rows]
        if names[place].lower() in COUNTED and len(cells) > 1:
            counts = [finite_number(cell) for cell in cells]
            steps = {b - a if a is not None and b is not None else math.nan for a, b in pairwise(counts)}
            if len(steps) == 1 and min(steps) > 0 and len(names) > 1:
                return place
        if cells and finite_number(cells[0]) is None and cells[0].lower() not in MISSING and is_moment(cells[0]):
            return place
    return None


def _is_text(rows: list[tuple[int, list[str]]], place: int) -> bool:
    """Whether what a column holds is not a single number; one that holds nothing is no text."""
    cells = [row[place] for _, row in rows if row[place].lower() not in MISSING]
    return bool(cells) and all(finite_number(cell) is None for cell in cells)


def _rows(path: str | Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    names, rows = named_rows(path, decode(read_bytes(path), str(path)))
    if not names:
        raise DataError(f"{path} is empty. Give a file with one row of numbers for each step.")
    return names, rows


def _find(path: str | Path, names: list[str], columns: Sequence[str]) -> list[int]:
    place = {name: k for k, name in reversed(list(enumerate(names)))}  # the first of several
    for name in columns:
        if name not in place:
            raise OptionError(f"{path} has no column {quoted(name)}.{nearest(name, names)}")
    return [place[name] for name in columns] if columns else list(range(len(names)))


def _read(
    path: str | Path, names: list[str], rows: list[tuple[int, list[str]]], places: list[int], *, gaps: bool = False
) -> Series:
    values = []
    for line, row in rows:
        for k in places:
            value = math.nan if gaps and row[k].lower() in MISSING else usable_number(row[k])
            if value is None:
                raise DataError(
                    f"{path}, row {line}, {names[k]:.40}: {quoted(row[k])} {fault_of(row[k])}. Correct it, or name the columns "
                    "to read with data.columns=NAME,NAME."
                )
            values.append(value)
    table = torch.tensor(values, dtype=torch.float64).reshape(len(rows), len(places))
    return Series(tuple(names[k] for k in places), table)
