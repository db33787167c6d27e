"""Labels that a user computes: a function of a Python file, from a text to a number for each of its characters."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from recurra.analysis.source_labels import Labeller
from recurra.errors import OptionError, nearest


def read_labeller(named: str) -> Labeller:
    """`FILE.py:NAME` as labels: one, called NAME.

    ```python
    def vowels(text):                           # in labels.py; then recurra units RUN --label labels.py:vowels
        return [character in "aeiou" for character in text]
    ```
    """
    file, _, name = named.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        raise OptionError(f"label {named!r}: there is no file {file!r} to read {name!r} from.")
    spec = importlib.util.spec_from_file_location(f"recurra_labels_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise OptionError(f"label {named!r}: {file!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    functions = {key: value for key, value in vars(module).items() if callable(value)}
    if name not in functions:
        raise OptionError(f"{file!r} has no function {name!r}.{nearest(name, functions)}")

    def label(text: str) -> dict[str, Any]:
        try:
            return {name: functions[name](text)}
        except Exception as error:
            raise OptionError(f"{named} failed on a text of {len(text)} characters: {error!r}.") from error

    return label
