"""What an evaluation or an analysis gives back: numbers as fields; the same numbers to read, to look at and to pass on."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """A text whose control characters (all but line ends and tabs) are written out as `\\x1b`: a terminal obeys them, and marks
    of direction make it show another text than there is."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


@dataclass(frozen=True)
class Table:
    """Rows of text under their columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def __str__(self) -> str:
        lines = [list(self.columns), *map(list, self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        text = "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )
        return f"{self.title}\n{text}" if self.title else text

    def to_csv(self) -> str:
        """The rows with their columns as CSV."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Result:
    """A frozen object with numbers. `str` is for a terminal, `_repr_html_` for a notebook, `plot` for looking.

    A result defines `table`, or `__str__`; `to_json` gives its fields unless it says otherwise.
    """

    def table(self) -> Table | None:
        """The numbers as rows under columns, where that is how one reads them."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The numbers as `--json` prints them. NaN and ±inf become null."""
        return {each.name: to_plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]

    def arrays(self) -> dict[str, Tensor]:
        """The numbers that are arrays, by name, as a run folder keeps them in an `.npz` file."""
        return {}

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """The picture: a matplotlib figure.

        - `file`: also save it. `NAME.svg`, `NAME.png` or `NAME.pdf` is that file; `NAME` is SVG and PNG, on a light and on a
          dark ground.
        """
        # the one import that points up: whoever asks a result for its picture needs the room of pictures
        return import_module("recurra.plots").draw(self, file, **options)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # before `dataclass` writes one that lists every tensor: a prompt shows what `print` shows
        setattr(cls, "__repr__", Result.__repr__)  # noqa: B010

    def __str__(self) -> str:
        return str(self.table() or object.__repr__(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        table = self.table()
        return f"<pre>{escape(str(self))}</pre>" if table is None else table._repr_html_()


class Film(Result):
    """A result whose picture moves: `plot(frame=k)` draws one of its `frames`, `animate` writes them all as one file.

    `frame_size`: of one of them, in inches.
    """

    frame_size: ClassVar[tuple[float, float]] = (6.2, 5.8)

    @property
    def frames(self) -> int:
        """How many pictures the film has."""
        raise NotImplementedError

    def animate(self, file: str | Path, *, seconds: float = 0.6) -> Path:
        """Write an animated GIF, `seconds` for each frame; the last one stays longer."""
        path: Path = import_module("recurra.plots.animation").animate(self, file, seconds=seconds)  # as in `plot`
        return path


def to_plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Tensor):
        return to_plain(value.detach().cpu().tolist())
    if isinstance(value, Result):
        return value.to_json()
    if isinstance(value, Table):
        return [dict(zip(value.columns, row, strict=True)) for row in value.rows]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(each) for each in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
