"""Dates as people write them, and as ISO 8601 does: synthetic pairs, so that every right answer is known."""

from __future__ import annotations

import random
from datetime import date, timedelta

from recurra.data.pairs import Pair
from recurra.errors import OptionError

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)

FORMATS = (
    "{day} {month} {year}",
    "{day2} {month} {year}",
    "{day} {mon} {year}",
    "{day2} {mon} {year}",
    "{day}-{mon}-{year}",
    "{day2}/{mon}/{year}",
    "{day}. {month} {year}",
    "{ordinal} {month} {year}",
    "{ordinal} of {month}, {year}",
    "the {ordinal} of {month} {year}",
    "{month} {day}, {year}",
    "{month} {ordinal}, {year}",
    "{month} the {ordinal}, {year}",
    "{mon} {day}, {year}",
    "{mon}. {day2} {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday}, {day2} {mon} {year}",
    "{weekday}, {month} {day}, {year}",
    "{weekday} the {ordinal} of {month} {year}",
    "{wday} {mon} {day2} {year}",
    "{wday}, {ordinal} {month} {year}",
    "{wday} {day2}.{number2}.{year}",
    "{day2}.{number2}.{year}",
    "{day}.{number}.{year}",
    "{number}/{day}/{year}",
    "{number2}/{day2}/{year}",
    "{year}/{number2}/{day2}",
    "{year}{number2}{day2}",
    "{year} {mon} {day2}",
    "{year}, {month} {day}",
    "{year}, {ordinal} of {month}",
)
"""With points the day comes first, with slashes between numbers the month: no text has two meanings."""


def write_date(day: date, form: str) -> str:
    """A date in one of `FORMATS`, or in another form with the same names."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    suffix = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return form.format(
        day=day.day,
        day2=f"{day.day:02d}",
        ordinal=f"{day.day}{suffix}",
        number=day.month,
        number2=f"{day.month:02d}",
        month=month,
        mon=month[:3],
        weekday=weekday,
        wday=weekday[:3],
        year=day.year,
    )


def synthetic_dates(count: int, seed: int = 0) -> list[Pair]:
    """Different days of 1900 to 2099, each in a format and case drawn at random, with their ISO form.

    No day comes twice, so that a part that is held out has no day that was seen in any format.

    ```python
    synthetic_dates(2)  # [Pair("the 3rd of JULY ...", "....-07-03"), ...]
    ```
    """
    days = (LAST - FIRST).days + 1
    if not 1 <= count <= days:
        raise OptionError(
            f"dates: count must lie between 1 and {days:,}, the days of {FIRST.year} to {LAST.year}; got {count}."
        )
    draw = random.Random(seed)
    pairs = []
    for k in draw.sample(range(days), count):
        day = FIRST + timedelta(days=k)
        text = write_date(day, draw.choice(FORMATS))
        text = draw.choice((text, text, str.lower(text), str.upper(text)))
        pairs.append(Pair(text, day.isoformat()))
    return pairs
