"""What a user has written in a Python file of their own: `FILE.py:NAME`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recurra.errors import OptionError, RecurraError, nearest, quoted


def find_in_file(path: Path, name: str, what: str, fits: Callable[[Any], bool]) -> Any:
    """What a Python file calls `name`; the file is run as a module of its own.

    - `what`: what is looked for, for messages: a cell, a function. `fits`: whether a value is one.

    ```python
    find_in_file(Path("labels.py"), "vowels", "function", callable)
    ```
    """
    path = path.expanduser()
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_file = False
    if not is_file:
        raise OptionError(f"there is no file {quoted(str(path), 200)} to read the {what} {quoted(name)} from.")
    spec = importlib.util.spec_from_file_location(f"recurra_user_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise OptionError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except RecurraError:
        raise
    except Exception as error:
        line = getattr(error, "lineno", None) or _last_line(error, path)
        raise OptionError(f"{path}:{line}: the file cannot be run: {type(error).__name__}: {error}") from error
    found = {key: value for key, value in vars(module).items() if fits(value)}
    if name not in found:
        raise OptionError(f"{quoted(str(path), 200)} has no {what} {quoted(name)}.{nearest(name, found)}")
    return found[name]


def _last_line(error: BaseException, path: Path) -> int:
    line, step = 1, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path.resolve()):
            line = step.tb_lineno
        step = step.tb_next
    return line
