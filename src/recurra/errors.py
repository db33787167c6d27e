"""One root, few children. A message says what was asked, what was found, and what to do, in one line."""

from __future__ import annotations

import difflib
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


def nearest(asked: str, known: Iterable[str]) -> str:
    """The sentence that follows an unknown name: the closest known one, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(asked, names, n=1, cutoff=0.5)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    return f"{guess} Known: {', '.join(names) or 'none'}."


def choose_from(what: str, asked: str, known: Iterable[str]) -> str:
    """`asked` if it is one of `known`; otherwise an error that suggests the nearest name."""
    names = list(known)
    if asked in names:
        return asked
    raise OptionError(f"{what} {asked!r} does not exist.{nearest(str(asked), names)}")
