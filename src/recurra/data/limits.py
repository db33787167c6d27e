"""How large what a file holds may be. Each limit is checked before memory is taken, and can be raised by whoever trusts the file.

RECURRA_LIMITS=columns=500000,file=8e9 recurra train …
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from recurra.errors import DataError, OptionError, nearest, quoted
from recurra.types import setting

VARIABLE = "RECURRA_LIMITS"


@dataclass(frozen=True)
class Limits:
    """The limits and what they are of; the message of a refusal follows from that."""

    file: int = setting(2**30, "bytes of a file, or of all text files of a folder")
    unpacked: int = setting(2**28, "bytes that a compressed file, or an array, unpacks to")
    members: int = setting(10_000, "members of an archive, or arrays of a cell array")
    columns: int = setting(100_000, "columns of a table")
    cells: int = setting(20_000_000, "cells of a table, or attributes of an event log")
    vocabulary: int = setting(100_000, "different tokens, activities or classes")
    nesting: int = setting(10_000, "levels of brackets, lists or elements, one inside the other")


def limits() -> Limits:
    """Those that hold now: the defaults, or what the environment variable says."""
    given: dict[str, int] = {}
    known = {each.name for each in fields(Limits)}
    for part in os.environ.get(VARIABLE, "").split(","):
        if not part.strip():
            continue
        name, _, text = (each.strip() for each in part.partition("="))
        if name not in known:
            raise OptionError(f"{VARIABLE}: limit {quoted(name)} does not exist.{nearest(name, known)}")
        try:
            given[name] = int(float(text))
        except (ValueError, OverflowError):
            given[name] = 0
        if given[name] < 1:
            raise OptionError(f"{VARIABLE}: {name} is a whole number from 1 on; got {quoted(text)}.")
    return Limits(**given)


def check_limit(name: str, found: int, where: str, instead: str = "") -> None:
    """Refuse more than the limit allows.

    - `where`: the file and the line, for the message. `instead`: what else can be done, as a sentence.
    """
    most = getattr(limits(), name)
    if found > most:
        what = next(each.metadata["about"] for each in fields(Limits) if each.name == name)
        way = f"If the file is sound, set {VARIABLE}={name}={found}."
        raise DataError(f"{where}: {found:,} is more than {most:,} ({what}). {instead}{' ' * bool(instead)}{way}")
