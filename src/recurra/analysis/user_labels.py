"""Labels that a user computes: a function of a Python file, from a text to a number for each of its characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recurra.analysis.source_labels import Labeller
from recurra.cells.user_file import find_in_file
from recurra.errors import OptionError


def read_labeller(named: str) -> Labeller:
    """`FILE.py:NAME` as labels: one, named NAME.

    ```python
    def vowels(text):                           # in labels.py; then recurra units RUN --label labels.py:vowels
        return [character in "aeiou" for character in text]
    ```
    """
    file, _, name = named.rpartition(":")
    function = find_in_file(Path(file), name, "function", callable)

    def label(text: str) -> dict[str, Any]:
        try:
            return {name: function(text)}
        except Exception as error:
            raise OptionError(f"{named} failed on a text of {len(text)} characters: {error!r}.") from error

    return label
