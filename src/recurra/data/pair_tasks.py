"""Synthetic pairs, whose right answers are known: dates as people write them and as ISO 8601 does, and sums of two numbers."""

from __future__ import annotations

import math
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
    *("{day} {month} {year}", "{day2} {month} {year}", "{day} {mon} {year}", "{day2} {mon} {year}"),
    *("{day}-{mon}-{year}", "{day2}/{mon}/{year}", "{day}. {month} {year}", "{ordinal} {month} {year}"),
    *("{ordinal} of {month}, {year}", "the {ordinal} of {month} {year}", "{month} {day}, {year}"),
    *("{month} {ordinal}, {year}", "{month} the {ordinal}, {year}", "{mon} {day}, {year}", "{mon}. {day2} {year}"),
    *("{weekday}, {day} {month} {year}", "{weekday}, {day2} {mon} {year}", "{weekday}, {month} {day}, {year}"),
    *("{weekday} the {ordinal} of {month} {year}", "{wday} {mon} {day2} {year}", "{wday}, {ordinal} {month} {year}"),
    *("{wday} {day2}.{number2}.{year}", "{day2}.{number2}.{year}", "{day}.{number}.{year}", "{number}/{day}/{year}"),
    *("{number2}/{day2}/{year}", "{year}/{number2}/{day2}", "{year}{number2}{day2}", "{year} {mon} {day2}"),
    *("{year}, {month} {day}", "{year}, {ordinal} of {month}"),
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
    rc.data.synthetic_dates(2)  # [Pair("the 3rd of JULY ...", "....-07-03"), ...]
    ```
    """
    days = (LAST - FIRST).days + 1
    if not 1 <= count <= days:
        raise OptionError(f"dates: count must be 1 to {days:,}, the days of {FIRST.year} to {LAST.year}; got {count}.")
    draw = random.Random(seed)
    pairs = []
    for k in draw.sample(range(days), count):
        day = FIRST + timedelta(days=k)
        text = write_date(day, draw.choice(FORMATS))
        text = draw.choice((text, text, str.lower(text), str.upper(text)))
        pairs.append(Pair(text, day.isoformat()))
    return pairs


def synthetic_sums(count: int, seed: int = 0, digits: int = 3) -> list[Pair]:
    """Sums of two numbers of at most `digits` digits; the answer is written from its last digit on, as one adds by hand.

    No two numbers come together twice, in either order, so that a part that is held out was never seen.

    ```python
    rc.data.synthetic_sums(2)  # [Pair("407+58", "564"), ...]: 407 + 58 = 465
    ```
    """
    numbers = 10**digits
    most = numbers * (numbers + 1) // 2
    if not 1 <= count <= most:
        raise OptionError(f"addition: count must be 1 to {most:,}, the pairs of numbers there are; got {count}.")
    draw = random.Random(seed)
    pairs = []
    for k in draw.sample(range(most), count):  # the k-th of (0, 0), (0, 1), (1, 1), (0, 2), …
        larger = (math.isqrt(8 * k + 1) - 1) // 2
        a, b = draw.sample((larger, k - larger * (larger + 1) // 2), 2)
        pairs.append(Pair(f"{a}+{b}", str(a + b)[::-1]))
    return pairs
