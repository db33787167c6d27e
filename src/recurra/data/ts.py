"""`.ts` files: many time series with a class each, as the UEA archive and sktime write them.

    @dimensions 2
    @classLabel true left right
    @data
    0.1,0.2,?:1.0,1.1,1.2:left
    0.3:1.3:right

Lines with `@` are the header. Then one series per line: channels with `:` between them, steps with `,`, the class last.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from recurra.data.comma_separated import fault_of, usable_number
from recurra.errors import DataError, listed, quoted

Array = npt.NDArray[np.float64]
MISSING = ("?", "nan", "")


def read_ts(path: str | Path, text: str, *, labelled: bool = True) -> tuple[list[Array], list[str] | None]:
    """Each series as `[T, D]`, missing values as NaN, and the classes, if the file has them; `path` is for messages.

    - `labelled`: classes are needed, and must be those that the header names, if it names any.
    """
    header: dict[str, str] = {}
    lines = iter(enumerate(text.splitlines(), start=1))
    for _, line in lines:
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            break
        if word.startswith("@"):
            header[word[1:].lower()] = rest.strip()
    else:
        raise DataError(f"{path} has no line @data: it is no .ts file. Put a header with @classLabel and @data first.")
    if header.get("timestamps", "").lower() == "true":
        raise DataError(f"{path} has time stamps (@timeStamps true), which are not read. Write plain values.")
    has, *known = header.get("classlabel", "true").split() or ["false"]
    has_class = has.lower() == "true" and "targetlabel" not in header
    series: list[Array] = []
    classes: list[str] = []
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        channels = line.strip().split(":")
        if has_class:
            classes.append(channels.pop().strip())
            if labelled and known and classes[-1] not in known:
                raise DataError(
                    f"{path}, line {number}: the class {quoted(classes[-1])} is none of @classLabel: {listed(known)}. "
                    "Correct it, or add it there."
                )
        series.append(_channels(f"{path}, line {number}", channels))
        if series[-1].shape[1] != series[0].shape[1]:
            raise DataError(
                f"{path}, line {number}: the series has {series[-1].shape[1]} channels, but the first one has "
                f"{series[0].shape[1]}. Give every series the same channels."
            )
    return series, classes if has_class else None


def _channels(where: str, channels: list[str]) -> Array:
    read = [[number(value, where) for value in channel.split(",")] for channel in channels]
    sizes = sorted({len(channel) for channel in read})
    if len(sizes) != 1:
        found = f"{sizes[0]} to {sizes[-1]} steps" if sizes else "none"
        raise DataError(f"{where}: the channels of one series must have the same number of steps; found {found}.")
    return np.array(read).T


def number(value: str, where: str) -> float:
    """A finite number, or NaN for one that is missing."""
    if value.strip().lower() in MISSING:
        return float("nan")
    read = usable_number(value)
    if read is None:
        raise DataError(f"{where}: {quoted(value.strip())} {fault_of(value)}. Write ? where a value is missing.")
    return read
