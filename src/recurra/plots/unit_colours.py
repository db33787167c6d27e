"""A unit's value as the colour behind the text that it reads, in HTML and on a terminal: blue is high, orange is low."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from rich.text import Text
from torch import Tensor

from recurra.types import Float

LEVELS = 8
HIGH, LOW = (0, 114, 178), (213, 94, 0)
SHADES = "\n".join(
    f".{name}{level} {{ background: rgb({' '.join(map(str, colour))} / {0.62 * level / LEVELS:.2f}); }}"
    for name, colour in (("p", HIGH), ("n", LOW))
    for level in range(1, LEVELS + 1)
)
"""The style rules that `to_html` relies on."""


@dataclass(frozen=True, eq=False)
class ColouredText:
    """Symbols of a text, the value of a unit at each, and where a label holds (underlined), if there is one.

    ```python
    coloured = colour_text(list("f('a')"), activity.of(unit), holds)
    print(coloured.to_html())                   # spans with the classes of `SHADES`
    rich.print(coloured.to_terminal())
    ```
    """

    symbols: Sequence[str]
    levels: list[int]
    holds: list[bool]

    def _runs(self) -> list[tuple[str, int, bool]]:
        """Neighbours that look the same, together."""
        rows = zip(self.symbols, self.levels, self.holds, strict=True)
        return [("".join(row[0] for row in run), *key) for key, run in groupby(rows, key=lambda row: (row[1], row[2]))]

    def to_html(self) -> str:
        parts = []
        for text, level, holds in self._runs():
            # a line's end shows its colour on a space before it
            inner = html.escape(text).replace("\n", " \n")
            inner = f"<u>{inner}</u>" if holds else inner
            name = f"{'p' if level > 0 else 'n'}{abs(level)}"
            parts.append(f'<span class="{name}">{inner}</span>' if level else inner)
        return "".join(parts)

    def to_terminal(self) -> Text:
        made = Text()
        for text, level, holds in self._runs():
            shade = [round(255 - (255 - c) * 0.8 * abs(level) / LEVELS) for c in (HIGH if level > 0 else LOW)]
            style = f"{'underline ' if holds else ''}black on rgb({','.join(map(str, shade))})"
            made.append(text.replace("\n", " \n"), style=style)
        return made


def colour_text(
    symbols: Sequence[str],
    values: Float[Tensor, " N"],
    holds: Tensor | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
) -> ColouredText:
    """Colours for a unit's values: none in the middle between `low` and `high`, full at either (left out: the least and the
    greatest value). With `low` above `high`, the colours are exchanged."""
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    middle, half = (low + high) / 2, (high - low) / 2
    levels = ((values - middle) / half if half else torch.zeros_like(values)).clamp(-1, 1).mul(LEVELS).round()
    return ColouredText(
        symbols, [int(level) for level in levels.tolist()], [False] * len(symbols) if holds is None else holds.tolist()
    )
