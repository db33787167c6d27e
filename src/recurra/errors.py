"""One root, few children. A message says what was asked, what was found, and what to do, in one line."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable


class RecurraError(Exception):
    """Anything that a user can put right. The command line prints it as one line and exits with code 2.

    ```python
    try:
        rc.Recurrent("gro", 3, 8)
    except rc.RecurraError as error:
        print(error)                                                # cell 'gro' does not exist. Did you mean 'gru'? …
    ```
    """


class CellError(RecurraError):
    """A cell's equations cannot be read. The message starts with the line of the cell that is at fault."""


class EquationError(CellError):
    """A cell that was given as text is not in the notation.

    - `line`, `column`, `end_column`: where, counted from 1; the end is `None` where it lies on another line. `remark`: what is
      wrong there and what to write instead.

    ```python
    try:
        rc.read_cell("def f(x, U, h): return tahn(x.h)")
    except rc.EquationError as error:
        print(error.line, error.column, error.remark)               # 1 24 'tahn' is not a function … Did you mean 'tanh'? …
    ```
    """

    def __init__(self, cell: str, remark: str, line: int, column: int, end_column: int | None = None) -> None:
        super().__init__(f"line {line}, column {column}: cell {cell!r}: {remark}")
        self.remark, self.line, self.column, self.end_column = remark, line, column, end_column


class EngineError(RecurraError):
    """An engine that was named cannot run what it was given."""


class ShapeError(RecurraError):
    """A tensor does not have the size, the type or the values that a layer was built for."""


class OptionError(RecurraError):
    """An option, name or key that does not exist, or a value that it does not take."""


class DataError(RecurraError):
    """A file, text or stream of tokens that cannot be read, or that does not hold what was asked of it."""


class RunError(RecurraError):
    """A run folder that cannot be used."""


class RunWarning(UserWarning):
    """Something of a run folder is damaged, and something else is used in its place; the message says what.

    ```python
    import warnings

    warnings.simplefilter("error", rc.RunWarning)                   # or rc.open(path, strict=True)
    ```
    """


QUOTED, LISTED, NAMES = 40, 12, 2000
"""Characters that are quoted of a value, names that are listed, and names among which the nearest is looked for."""


def quoted(value: object, most: int = QUOTED) -> str:
    """A value as it stands in a message: `repr`, cut. A message shows what a file holds; it does not repeat it."""
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= most else f"{value[:most]!r}…"
    try:
        shown = _SHORT.repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        shown = type(value).__name__
    return shown if len(shown) <= most else f"{shown[:most]}…"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = QUOTED


def listed(names: Iterable[object], most: int = LISTED) -> str:
    """Names with commas between them: the first ones, each cut, and how many more there are."""
    known = [str(name) for name in names]
    shown = [name if len(name) <= QUOTED else f"{name[:QUOTED]}…" for name in known[:most]]
    shown = [name if name.isprintable() else repr(name) for name in shown]
    more = f" and {len(known) - most:,} more" if len(known) > most else ""
    return ", ".join(shown) + more


LONGEST, ENDING = 300, 110
"""Characters of a message about a file; and of the end of one that is cut, since what to do stands there."""


def one_line(message: str, longest: int = LONGEST) -> str:
    """A message on one line, control characters escaped, at most so long: the middle is left out."""
    message = re.sub(r"\s*\n\s*", " ", message.strip())
    if not message.isprintable():
        message = "".join(each if each.isprintable() else repr(each)[1:-1] for each in message)
    return message if len(message) <= longest else f"{message[: longest - ENDING - 3]} … {message[-ENDING:]}"


def nearest(asked: str, known: Iterable[str]) -> str:
    """The sentence that follows an unknown name: the closest known one, and all of them where they are few."""
    names = sorted(known)
    close = difflib.get_close_matches(asked[:200], [name[:200] for name in names[:NAMES]], n=1, cutoff=0.5)
    guess = f" Did you mean {quoted(close[0])}?" if close else ""
    return f"{guess} Known: {listed(names, 60) or 'none'}."


def choose_from(what: str, asked: str, known: Iterable[str]) -> str:
    """`asked` if it is one of `known`; otherwise an error that suggests the nearest name."""
    names = list(known)
    if asked in names:
        return asked
    raise OptionError(f"{what} {quoted(asked)} does not exist.{nearest(str(asked), names)}")
