"""From a result to a figure of matplotlib: one look, on a light and on a dark ground.

A painter is a function from an axis and a result to the drawing; `painter` registers it for the type of the result. Colours are
those of Okabe & Ito, which people with colour-blind eyes tell apart; lines differ in dash and points in form too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from recurra.errors import OptionError
from recurra.runs.disk import reason, replace_file

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
DASHES = ("-", "--", "-.", ":")
ENDINGS = ("svg", "png")
GROUNDS = {"": ("white", "#222222", "#dddddd"), "-dark": ("#16181d", "#e8e8e8", "#3a3f47")}
"""What is added to a file's name, and the colours of ground, ink and grid."""
STAMPS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
"""Metadata that is left out, so that the same result gives the same file."""

R = TypeVar("R")
Size = tuple[float, float]
Paint = Callable[..., None]

PAINTERS: dict[type, tuple[Paint, Callable[[Any], Size]]] = {}
"""By type of result: how it is drawn, and how large, in inches."""


def painter(kind: type[R], size: Size | Callable[[R], Size] = (9.0, 5.5)) -> Callable[[Paint], Paint]:
    """Register a function as the picture of a type of result."""

    def register(paint: Paint) -> Paint:
        PAINTERS[kind] = paint, size if callable(size) else lambda result: size
        return paint

    return register


def draw(result: object, file: str | Path | None = None, *, endings: Sequence[str] = ENDINGS, **options: Any) -> Any:
    """The picture of a result: a figure of matplotlib, on a light ground.

    - `file`: also save it. `NAME.svg`, `NAME.png` or `NAME.pdf` is that file; `NAME` is one file for each of `endings`, on a
      light and (`NAME-dark`) on a dark ground.
    - `options`: of the painter.

    ```python
    flow = rc.gradient_flow(rc.Recurrent("lstm", 2, 8), torch.randn(60, 2), steps=40)
    rc.plots.draw(flow, "gradients.pdf")               # as flow.plot("gradients.pdf")
    ```
    """
    found = next((PAINTERS[kind] for kind in type(result).__mro__ if kind in PAINTERS), None)
    if found is None:
        raise OptionError(f"{type(result).__name__} has no picture. Print it, or take its numbers from to_json().")
    paint, size = found
    files = {} if file is None else name_files(file, endings)
    matplotlib = find_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    for ground in reversed(GROUNDS):  # the light one last: it is returned
        own = [each for each, its in files.items() if its == ground]
        if ground and not own:
            continue
        with matplotlib.rc_context(look(ground)):
            figure = Figure(figsize=size(result), layout="constrained")  # pyplot would keep its figures forever
            FigureCanvasAgg(figure)
            paint(figure.add_subplot(), result, **options)
            figure.draw_without_rendering()  # ticks take their colours when they are first drawn
            for each in own:
                save(figure, each)
    # a notebook shows pyplot's figures by itself, others by this
    setattr(figure, "_repr_png_", partial(to_bytes, figure, "png"))  # noqa: B010
    return figure


def look(ground: str) -> dict[str, Any]:
    """Settings of matplotlib."""
    paper, ink, faint = GROUNDS[ground]
    return {
        "figure.facecolor": paper,
        "axes.facecolor": paper,
        "savefig.facecolor": "auto",
        "text.color": ink,
        "text.parse_math": False,  # a $ in a name is a $
        "axes.labelcolor": ink,
        "axes.edgecolor": faint,
        "xtick.color": ink,
        "ytick.color": ink,
        "grid.color": faint,
        "legend.facecolor": paper,
        "legend.edgecolor": faint,
        "font.size": 14,
        "axes.titlesize": 16,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }


def find_matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise OptionError("plots need matplotlib. Install it with pip install 'recurra[analysis]'.") from None
    return matplotlib


def name_files(file: str | Path, endings: Sequence[str] = ENDINGS) -> dict[Path, str]:
    """The files of a picture of this name, each with its ground; a name that is no picture's is refused."""
    file = Path(file)
    ending = file.suffix.lower().removeprefix(".")
    if ending in STAMPS:
        return {file: ""}
    if ending:
        raise OptionError(
            f"{file}: a picture is .svg, .png or .pdf; got {file.suffix}. Without an ending, it is {' and '.join(endings)} on a "
            "light and on a dark ground."
        )
    return {file.with_name(f"{file.name}{ground}.{each}"): ground for ground in GROUNDS for each in endings}


def to_bytes(figure: Any, ending: str) -> bytes:
    data = io.BytesIO()
    with find_matplotlib().rc_context({"svg.hashsalt": "recurra"}):
        figure.savefig(data, format=ending, dpi=150, metadata=STAMPS[ending])
    return data.getvalue()


def save(figure: Any, file: Path) -> None:
    """Write a figure, whole or not at all; the folder is made."""
    data = to_bytes(figure, file.suffix.lower()[1:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)
    except OSError as error:
        raise OptionError(f"{file} cannot be written ({reason(error)}). Choose another place.") from error


def plain_ticks(*axes: Any) -> None:
    """Numbers on logarithmic axes as plain text: a label that is mathematics would be shown as it is written.

    Where there are few powers of ten, 2 and 5 stand between them.
    """
    from matplotlib.ticker import LogLocator

    for each in axes:
        low, high = each.get_view_interval()
        each.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        each.set_major_formatter(lambda value, _: written_power(value))
        each.set_minor_formatter("")


def written_power(value: float) -> str:
    """0.01, 2, 1000; 10⁶."""
    power = round(math.log10(value))
    if 1e-3 <= value <= 1e4 or not math.isclose(value, 10.0**power):
        return f"{value:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def inks(axis: Any) -> tuple[Any, Any]:
    """The colours of the ground and of what is written on it."""
    return axis.figure.get_facecolor(), axis.xaxis.label.get_color()
