"""Event logs: cases, each a sequence of activities with times and attributes, from CSV or XES files (gzip too)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from recurra.data.comma_separated import named_rows
from recurra.data.guard import open_file, read_bytes, reads
from recurra.data.limits import check_limit, limits
from recurra.data.utf8 import decode
from recurra.errors import DataError, listed, nearest, quoted

NAMES = {
    "case": ("caseid", "case", "caseconceptname", "traceid", "trace", "id"),
    "activity": ("activityid", "activity", "conceptname", "activityname", "event", "task", "action"),
    "time": ("completetimestamp", "timestamp", "timetimestamp", "time", "datetime", "date", "endtime", "starttime"),
}
"""What columns are usually called, with everything but letters left out."""

FORMATS = (
    "%d-%m-%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
    "%Y-%m",
    "%Y/%m",
    "%b %Y",
)
"""Ways to write a moment besides ISO 8601 and seconds since 1970."""

QUARTER = re.compile(r"^(\d{4})[- ]?Q([1-4])$", re.IGNORECASE)
FIRST, LAST = -62135596800, 253402300799
"""The years 1 to 9999 in seconds since 1970; a moment outside of them has no date."""


@dataclass(frozen=True)
class Case:
    """What happened to one thing, in order. `times` are seconds since 1970; `None` where the log has none."""

    name: str
    activities: list[str]
    times: npt.NDArray[np.float64] | None
    attributes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class EventLog:
    """Cases in the order in which the file first names them, and the columns that they were read from."""

    cases: list[Case]
    columns: dict[str, str | None]

    @property
    def events(self) -> int:
        return sum(len(case.activities) for case in self.cases)


@reads
def read_log(
    path: str | Path,
    *,
    case: str | None = None,
    activity: str | None = None,
    time: str | None = None,
    attributes: Sequence[str] = (),
) -> EventLog:
    """A log of events. Columns that are not named are guessed from what columns are usually called.

    Events of a case are put in the order of their times; those with the same time, or without, stay in the order of the file.

    - `attributes`: further columns, taken as categories.

    ```python
    rc.data.write_log("log.csv", rc.data.simulate_log(20, seed=0))
    log = rc.data.read_log("log.csv", case="case", activity="state")
    ```
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} is no file. Give an event log: a .csv or .xes file, gzip too.")
    name = path.name.removesuffix(".gz").lower()
    header, rows = (_read_xes if name.endswith(".xes") else _read_csv)(path)
    asked = {"case": case, "activity": activity, "time": time}
    columns = {what: _find(what, name, header, path) for what, name in asked.items()}
    for column in attributes:
        _find("attribute", column, header, path)
    kept: dict[str, list[tuple[float, str, list[str]]]] = {}
    for number, row in rows:
        identity, what = row.get(columns["case"] or "", ""), row.get(columns["activity"] or "", "")
        if not identity or not what:
            missing = "case" if not identity else "activity"
            raise DataError(f"{path}, row {number}: the {missing} is empty. Fill it in or leave the row out.")
        moment = 0.0 if columns["time"] is None else read_moment(row.get(columns["time"], ""), path, number)
        kept.setdefault(identity, []).append((moment, what, [row.get(column, "") for column in attributes]))
    if not kept:
        raise DataError(f"{path} has no events. Give a log with at least one row.")
    return EventLog([_case(name, events, columns["time"], attributes) for name, events in kept.items()], columns)


def _case(name: str, events: list[tuple[float, str, list[str]]], time: str | None, attributes: Sequence[str]) -> Case:
    events = sorted(events, key=lambda event: event[0])
    times = np.array([moment for moment, _, _ in events]) if time is not None else None
    further = {column: [values[k] for _, _, values in events] for k, column in enumerate(attributes)}
    return Case(name, [what for _, what, _ in events], times, further)


def _find(what: str, asked: str | None, header: list[str], path: Path) -> str | None:
    if asked is not None:
        if asked in header:
            return asked
        raise DataError(f"{path} has no column {quoted(asked)} for the {what}.{nearest(asked, header)}")
    plain = {re.sub(r"[^a-z]", "", column.lower()): column for column in reversed(header)}
    for usual in NAMES[what]:
        if usual in plain:
            return plain[usual]
    if what == "time":
        return None
    raise DataError(f"{path} has no column that looks like the {what}; found {listed(header)}. Set data.{what}=NAME.")


def _read_csv(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    header, rows = named_rows(path, decode(read_bytes(path), str(path)), ",;\t|", has_names=True)
    if len(header) < 2:
        raise DataError(f"{path} has {len(header)} columns; an event log has a case and an activity at least.")
    return header, [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _read_xes(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The attributes of each event; those of its trace with `case:` before their key."""
    found = _Xes(path)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler, parser.EndElementHandler = found.start, found.end
    parser.StartDoctypeDeclHandler = found.refuse_doctype
    with open_file(path) as stream:
        try:
            parser.ParseFile(stream)
        except expat.ExpatError as error:
            raise DataError(f"{path} is not readable as XES: {error}. Get it again.") from error
        except (ValueError, LookupError) as error:  # of encodings that expat does not know
            why = f"its encoding cannot be read ({error!s:.80})"
            raise DataError(f"{path}, line {parser.CurrentLineNumber}: {why}. Convert it to UTF-8.") from error
    return list(found.header), found.rows


class _Xes:
    """Takes the elements of an XES file as they come: no tree of them is built, however large the file."""

    def __init__(self, path: Path):
        self.path, self.most = path, limits()
        self.rows: list[tuple[int, dict[str, str]]] = []
        self.header: dict[str, None] = {"case:concept:name": None}
        self.open: list[str] = []
        self.traces = self.count = 0
        self.shared: dict[str, str] = {}
        self.events: list[dict[str, str]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Attributes of a trace or of an event are its own; attributes of attributes are left out."""
        kind, inside = tag.rpartition("}")[2], self.open[-1] if self.open else ""
        self.open.append(kind)
        if len(self.open) > self.most.nesting:
            check_limit("nesting", len(self.open), str(self.path))
        if kind == "trace":
            self.shared, self.events = {}, []
        elif kind == "event" and inside == "trace":
            self.events.append({})
        elif "key" in attributes and inside in ("trace", "event") and (inside == "trace" or self.events):
            own = self.shared if inside == "trace" else self.events[-1]
            own[attributes["key"]] = attributes.get("value", "")
            self.count += 1
            if self.count > self.most.cells:
                check_limit("cells", self.count, str(self.path))

    def end(self, tag: str) -> None:
        if self.open.pop() != "trace":
            return
        self.traces += 1
        shared = {"concept:name": f"trace {self.traces}"} | self.shared
        self.count += len(shared) * len(self.events)
        check_limit("cells", self.count, str(self.path))
        for event in self.events:
            row = {f"case:{key}": value for key, value in shared.items()} | event
            self.header.update(dict.fromkeys(row))
            self.rows.append((len(self.rows) + 1, row))
        self.events = []
        check_limit("columns", len(self.header), str(self.path))

    def refuse_doctype(self, *_: object) -> None:
        """Entities can be nested until a small file fills the memory, and XES has no use for them."""
        raise DataError(f"{self.path} has a DOCTYPE, which may hold entities; XES has none. Remove it.")


def is_moment(text: str) -> bool:
    """Whether a text is a moment that `read_moment` can read."""
    try:
        read_moment(text.strip(), Path(), 0)
    except DataError:
        return False
    return True


def read_moment(text: str, path: Path, number: int) -> float:
    """Seconds since 1970; a moment without a zone is taken as UTC."""
    text = QUARTER.sub(lambda found: f"{found[1]}-{3 * int(found[2]) - 2:02}", text)
    for read in (datetime.fromisoformat, *(lambda t, f=each: datetime.strptime(t, f) for each in FORMATS)):
        try:
            found = read(text)
            seconds = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
        if FIRST <= seconds <= LAST:  # an offset may lead out of the years that there are
            return seconds
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if FIRST <= seconds <= LAST:
        return seconds
    raise DataError(
        f"{path}, row {number}: {quoted(text)} is no time that can be read. Write 2012-04-03 16:55:38 (ISO 8601), in the "
        "years 1 to 9999."
    )


def time_features(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of each event of a case: log of the seconds since the one before and since the first, hour and weekday as angles, and the
    year with its fraction, since what is done changes over the years."""
    since = np.diff(times, prepend=times[:1])
    day, week = 2 * np.pi * times / 86400, 2 * np.pi * times / (7 * 86400)
    ages = [np.log1p(since), np.log1p(times - times[0])]
    return np.stack([*ages, np.sin(day), np.cos(day), np.sin(week), np.cos(week), times / YEAR], axis=1)


TIME_NAMES = (
    "log seconds since the event before",
    "log seconds since the first",
    "sine of the hour",
    "cosine of the hour",
    "sine of the weekday",
    "cosine of the weekday",
    "years since 1970",
)
TIME_FEATURES = len(TIME_NAMES)
YEAR = 365.25 * 86400
