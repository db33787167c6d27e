"""Units over text: a unit's value as the colour behind the tokens that it reads (HTML, terminal), and scores beside controls.

Red is high, blue is low.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from recurra.analysis.neurons import Activity, Finding, Unit
from recurra.analysis.unit_study import Reading, UnitStudy, holds
from recurra.plots.figure import COLOURS, painter
from recurra.results import visible
from recurra.types import Float

if TYPE_CHECKING:
    from rich.text import Text

LEVELS = 8
HIGH, LOW = (213, 60, 30), (0, 114, 178)
SHADES = "\n".join(
    f".{name}{level} {{ background: rgb({' '.join(map(str, colour))} / {0.62 * level / LEVELS:.2f}); }}"
    for name, colour in (("p", HIGH), ("n", LOW))
    for level in range(1, LEVELS + 1)
)
"""The style rules that `to_html` relies on."""
UNDERLINE = "u { text-decoration: none; border-bottom: 2px solid currentColor; }"
"""Below the letters: a usual underline would hide an underscore."""
EXCERPT = 1200
"""Tokens of an excerpt."""


@dataclass(frozen=True, eq=False)
class ColouredText:
    """Tokens of a text, the value of a unit at each, and where a label holds (underlined; bold on a terminal), if there is one.

    ```python
    coloured = colour_text(list("f('a')"), activity.of(unit), holds)
    print(coloured.to_html())                   # spans with the classes of `SHADES`
    rich.print(coloured.to_terminal())
    ```
    """

    tokens: Sequence[str]
    levels: list[int]
    holds: list[bool]

    def _runs(self) -> list[tuple[str, int, bool]]:
        """Neighbours that look the same, together."""
        rows = zip(self.tokens, self.levels, self.holds, strict=True)
        return [("".join(row[0] for row in run), *key) for key, run in groupby(rows, key=lambda row: (row[1], row[2]))]

    def to_html(self) -> str:
        parts = []
        for text, level, is_held in self._runs():
            # a line's end shows its colour on a space before it
            inner = html.escape(text).replace("\n", " \n")
            inner = f"<u>{inner}</u>" if is_held else inner
            name = f"{'p' if level > 0 else 'n'}{abs(level)}"
            parts.append(f'<span class="{name}">{inner}</span>' if level else inner)
        return "".join(parts)

    def to_terminal(self) -> Text:
        from rich.text import Text

        made = Text()
        for text, level, is_held in self._runs():
            shade = [round(255 - (255 - c) * 0.8 * abs(level) / LEVELS) for c in (HIGH if level > 0 else LOW)]
            # a terminal's underline hides underscores
            style = f"{'bold ' if is_held else ''}black on rgb({','.join(map(str, shade))})"
            made.append(visible(text).replace("\n", " \n"), style=style)
        return made


def colour_text(
    tokens: Sequence[str],
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
        tokens, [int(level) for level in levels.tolist()], [False] * len(tokens) if holds is None else holds.tolist()
    )


def excerpt(study: UnitStudy, finding: Finding, size: int = EXCERPT) -> ColouredText:
    """The best unit of a label over the stretch of a text in which the label changes most often."""
    return colour_reading(study.scored, study.activity, finding.best.unit, finding.label, finding.best.sign, size)


def colour_reading(
    reading: Reading, activity: Activity, unit: Unit, label: str | None, sign: int = 1, size: int | None = EXCERPT
) -> ColouredText:
    """A unit over a text; with a size, over that many tokens of the text where the label changes most."""
    values = activity.of(unit)
    true = None if label is None else holds(reading.labels[label])
    ends = reading.lengths.cumsum(0).tolist()
    begin, end, text = 0, ends[0], 0
    if true is not None and size is not None:
        turns = torch.cat([torch.zeros(1), (true[1:] != true[:-1]).float()]).cumsum(0)
        most = -1.0
        for k, last in enumerate(ends):
            first = last - int(reading.lengths[k])
            for start in range(first, max(first + 1, last - size + 1), 100):
                stop = min(last, start + size)
                if float(turns[stop - 1] - turns[start]) > most:
                    most, begin, end, text = float(turns[stop - 1] - turns[start]), start, stop, k
    elif size is not None:
        end = min(end, size)
    first = ends[text] - int(reading.lengths[text])
    tokens = reading.tokens(text)
    if begin > first:  # from the start of a line, if there is one
        begin = next((k + 1 for k in range(begin, end - 1) if tokens[k - first].endswith("\n")), begin)
    low, high = torch.quantile(values[:: max(1, len(values) // 100_000)], torch.tensor([0.01, 0.99])).tolist()
    bounds = {"low": low, "high": high} if sign > 0 else {"low": high, "high": low}
    held = None if true is None else true[begin:end]
    return colour_text(tokens[begin - first : end - first], values[begin:end], held, **bounds)


@painter(UnitStudy, lambda study: (9, 2.5 + 0.5 * len(study.findings)))
def paint_units(axis: Any, study: UnitStudy) -> None:
    """For each label the score of the best unit and of a probe of five, beside both controls."""
    scores = {
        "best unit": ("o", 0, [each.best.score for each in study.findings]),
        "probe of five units": ("D", 2, [each.trained.probe.score for each in study.findings]),
        "shifted labels": ("x", 7, [each.trained.by_chance for each in study.findings]),
        "untrained network": ("^", 1, [each.untrained.hits[0].score for each in study.findings]),
    }
    places = range(len(study.findings))
    for name, (mark, colour, values) in scores.items():
        axis.scatter(values, places, marker=mark, s=60, color=COLOURS[colour], label=name)
    axis.set_yticks(places, [each.label for each in study.findings])
    axis.invert_yaxis()
    axis.set(xlabel="correlation on held-out text", title="Units that follow a label")
    axis.grid(alpha=0.6)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
