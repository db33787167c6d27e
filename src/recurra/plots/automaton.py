"""Automata: laid out once and drawn as SVG without any other program or by matplotlib; and as text for Graphviz and Mermaid.

In the drawing each state is a row: first where edges come in, then a line for each edge that leaves, its symbols written on it.
Edges to one state run down one track, so no label lies under a line, however many states there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from recurra.analysis.automata.extraction import Extraction
from recurra.analysis.automata.finite import Machine, Mealy, Moore, shown
from recurra.analysis.automata.weighted import Weighted, WeightedExtraction
from recurra.errors import OptionError, choose_from
from recurra.plots.figure import inks, painter
from recurra.runs.disk import reason, replace_file

LINE, TRACK, LETTER, MARGIN = 20, 16, 7.2, 16
"""Of the drawing, in pixels: the height of a line, the distance of tracks, the width of a letter, the margin."""
PIXELS = 72
"""Of the drawing, for an inch of a figure, so that letters of 12 points are as wide as was laid out."""
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#0b7285", "#cf222e")
FEW = 3
"""So many symbols are named on an edge; the largest group of more is "any other"."""
LIKELY, RARE = 6, 0.02
"""Of a weighted state, so many symbols at most are drawn, and none that is rarer; one line sums up the others."""
NOWHERE = -2
"""Where something leads that is written at a state and has no edge."""


Automaton = Machine | Weighted


@dataclass(frozen=True)
class Edge:
    """From a state to another (−1: not known; `NOWHERE`: only words), and what is written on it."""

    start: int
    to: int
    label: str


def edges(machine: Automaton) -> list[Edge]:
    """The edges of each state, symbols that lead alike together; of a weighted automaton the likely ones."""
    if isinstance(machine, Weighted):
        return [edge for state in range(machine.size) for edge in _weighted_edges(machine, state)]
    found = []
    for state, row in enumerate(machine.after):
        groups: dict[tuple[int, str], list[str]] = {}
        for k, then in enumerate(row):
            answer = f" / {machine.outputs[state][k]}" if isinstance(machine, Mealy) and then >= 0 else ""
            groups.setdefault((then, answer), []).append(shown(machine.symbols[k]))
        largest = max(groups, key=lambda group: (group[0] >= 0, len(groups[group])))
        any_other = "any" if len(groups) == 1 else "any other known" if -1 in row else "any other"
        for (then, answer), symbols in groups.items():
            rest = (then, answer) == largest and len(symbols) > FEW
            found.append(Edge(state, then, (any_other if rest else ", ".join(symbols)) + answer))
    return found


def _weighted_edges(machine: Weighted, state: int) -> list[Edge]:
    """The likeliest symbols with their probabilities, by where they lead; then how many others there are, and theirs."""
    groups: dict[int, list[str]] = {}
    order = machine.probabilities[state].sort(descending=True)
    likely = [(k, p) for k, p in zip(order.indices.tolist(), order.values.tolist(), strict=True) if p >= RARE][:LIKELY]
    for k, p in likely:
        then = int(machine.after[state, k]) if k < len(machine.symbols) else NOWHERE
        groups.setdefault(then, []).append(f"{shown(machine.classes[k])} {p:.2f}")
    others, rest = len(machine.classes) - len(likely), 1 - sum(p for _, p in likely)
    found = [Edge(state, then, ", ".join(symbols)) for then, symbols in groups.items()]
    return [*found, Edge(state, NOWHERE, f"{others} others {rest:.2f}")] if rest >= 0.005 else found


def _with_words(machine: Automaton, between: str) -> list[str]:
    """The names of states, each with what is only written there."""
    words = [edge for edge in edges(machine) if edge.to == NOWHERE]
    return [
        between.join([name, *(edge.label for edge in words if edge.start == state)])
        for state, name in enumerate(machine.state_names())
    ]


def to_dot(machine: Automaton) -> str:
    """For Graphviz.

    ```python
    print(rc.plots.to_dot(rc.analysis.Moore("ab", ((1, 0), (1, 1)), ("no", "yes"))))
    ```
    """
    lines = ["digraph machine {", "  rankdir=LR;", '  node [shape=box, style=rounded]; start [shape=point, label=""];']
    lines += [f"  {k} [label={_quoted(name)}];" for k, name in enumerate(_with_words(machine, "\n"))]
    lines.append("  start -> 0;")
    lines += [f"  {edge.start} -> {edge.to} [label={_quoted(edge.label)}];" for edge in edges(machine) if edge.to >= 0]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_mermaid(machine: Automaton) -> str:
    """For Mermaid, which Markdown pages show as a picture.

    ```python
    print(rc.plots.to_mermaid(rc.analysis.Moore("ab", ((1, 0), (1, 1)), ("no", "yes"))))
    ```
    """

    def plain(text: str) -> str:
        return "".join(sign if sign.isalnum() or sign in " ,/-ε" else f"#{ord(sign)};" for sign in text)

    lines = ["stateDiagram-v2", "  direction LR"]
    lines += [f'  state "{plain(name)}" as s{k}' for k, name in enumerate(_with_words(machine, "; "))]
    lines.append("  [*] --> s0")
    lines += [f"  s{edge.start} --> s{edge.to}: {plain(edge.label)}" for edge in edges(machine) if edge.to >= 0]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Box:
    """A state: its upper left corner, width and height."""

    x: float
    y: float
    width: float
    height: float
    name: str


@dataclass(frozen=True)
class Line:
    """From the end of a label (x, y) to the right to a track, along it, and back to the box of the state `to`."""

    x: float
    y: float
    track: float
    end: tuple[float, float]
    to: int


@dataclass(frozen=True)
class Layout:
    """Where everything stands, in pixels from the upper left; `labels` by their left ends."""

    width: float
    height: float
    boxes: list[Box]
    labels: list[tuple[float, float, str]]
    lines: list[Line]


def lay_out(machine: Automaton) -> Layout:
    names, known = machine.state_names(), [edge for edge in edges(machine) if edge.to != -1]
    rows = [[edge for edge in known if edge.start == state] for state in range(machine.size)]
    tops, y = [], float(MARGIN)
    for row in rows:
        tops.append(y)
        y += LINE * (len(row) + 1) + LINE / 2
    width = 24 + LETTER * max(map(len, names))
    text = MARGIN + width + 10
    tracks_from = text + LETTER * max([len(edge.label) + 2 for edge in known], default=0) + 10
    track = _tracks(rows, machine.size)
    boxes, labels, lines = [], [], []
    for state, row in enumerate(rows):
        boxes.append(Box(MARGIN, tops[state], width, LINE * (len(row) + 1) - 4, names[state]))
        for k, edge in enumerate(row):
            at = tops[state] + LINE * (k + 1) + LINE / 2 - 4
            labels.append((text, at, edge.label + (" ↺" if edge.to == state else "")))
            if edge.to not in (state, NOWHERE):
                end = MARGIN + width + 2, tops[edge.to] + LINE / 2 - 4
                begin = text + LETTER * (len(edge.label) + 1)
                lines.append(Line(begin, at, tracks_from + TRACK * track[edge.to], end, edge.to))
    right = tracks_from + TRACK * (max(track.values(), default=0) + 1) + MARGIN
    return Layout(right, y + MARGIN, boxes, labels, lines)


def _colour(state: int) -> str:
    return COLOURS[state % len(COLOURS)]


def to_svg(machine: Automaton) -> str:
    """A picture that needs no other program.

    ```python
    svg = rc.plots.to_svg(rc.analysis.Moore("ab", ((1, 0), (1, 1)), ("no", "yes")))
    ```
    """
    layout = lay_out(machine)
    parts = []
    for state, box in enumerate(layout.boxes):
        parts.append(
            f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="8" fill="none" '
            f'stroke="{_colour(state)}" stroke-width="{3 if state == 0 else 1.5}"/>'
            f'<text x="{box.x + box.width / 2:g}" y="{box.y + box.height / 2 + 4:g}" text-anchor="middle" '
            f'font-weight="bold">{escape(box.name)}</text>'
        )
    parts += [f'<text x="{x:g}" y="{y + 4:g}">{escape(label)}</text>' for x, y, label in layout.labels]
    parts += [
        f'<path d="M{line.x:g} {line.y:g}H{line.track:g}V{line.end[1]:g}H{line.end[0]:g}" fill="none" '
        f'stroke="{_colour(line.to)}" marker-end="url(#head)"/>'
        for line in layout.lines
    ]
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
    )
    style = (
        "text{font:12px ui-monospace,monospace;fill:#1f2328}.page{fill:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:g} {layout.height:g}" width="{layout.width:g}" '
        f'height="{layout.height:g}"><style>{style}</style><defs>{head}</defs>'
        '<rect class="page" width="100%" height="100%"/>' + "\n".join(parts) + "</svg>\n"
    )


def _size(machine: Automaton) -> tuple[float, float]:
    layout = lay_out(machine)
    return layout.width / PIXELS, layout.height / PIXELS


@painter(Moore, _size)
@painter(Mealy, _size)
@painter(Weighted, _size)
def paint_automaton(axis: Any, machine: Automaton, *, form: str = "rows") -> None:
    """The same drawing as `to_svg`; `form="circles"`: states on a ring, as textbooks draw them."""
    from matplotlib.patches import FancyBboxPatch

    if choose_from("form", form, ("rows", "circles")) == "circles":
        from recurra.plots.circles import paint_circles  # it draws the edges of this file

        paint_circles(axis, machine)
        return

    layout, ink = lay_out(machine), inks(axis)[1]
    letters = {"family": "monospace", "fontsize": 12, "color": ink, "va": "center"}
    for state, box in enumerate(layout.boxes):
        look: dict[str, Any] = {"fc": "none", "ec": _colour(state), "lw": 3 if state == 0 else 1.5}
        axis.add_patch(FancyBboxPatch((box.x, box.y), box.width, box.height, "round,pad=0,rounding_size=8", **look))
        middle = box.x + box.width / 2, box.y + box.height / 2
        axis.text(*middle, box.name, ha="center", fontweight="bold", **letters)
    for x, y, label in layout.labels:
        axis.text(x, y, label, **letters)
    for line in layout.lines:
        colour, (x, y) = _colour(line.to), line.end
        axis.plot([line.x, line.track, line.track, x], [line.y, line.y, y, y], color=colour, lw=1)
        axis.annotate("", (x, y), xytext=(x + 8, y), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1})
    axis.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    axis.axis("off")


@painter(Extraction, lambda found: _size(found.machine))
@painter(WeightedExtraction, lambda found: _size(found.machine))
def paint_extraction(axis: Any, found: Extraction | WeightedExtraction, *, form: str = "rows") -> None:
    """The machine that was chosen."""
    paint_automaton(axis, found.machine, form=form)


def _tracks(rows: list[list[Edge]], size: int) -> dict[int, int]:
    """The track of each state that edges lead to: shorter ones further in, none on top of another."""
    reach: dict[int, tuple[int, int]] = {}
    for state in range(size):
        others = [edge.start for row in rows for edge in row if edge.to == state and edge.start != state]
        if others:
            reach[state] = (min(state, *others), max(state, *others))
    tracks: list[list[tuple[int, int]]] = []
    found = {}
    for state, (low, high) in sorted(reach.items(), key=lambda item: item[1][1] - item[1][0]):
        free = (k for k, taken in enumerate(tracks) if all(high < a or b < low for a, b in taken))
        found[state] = next(free, len(tracks))
        if found[state] == len(tracks):
            tracks.append([])
        tracks[found[state]].append((low, high))
    return found


WRITERS: dict[str, Callable[[Automaton], str]] = {"dot": to_dot, "mermaid": to_mermaid, "svg": to_svg}


def write_machine(machine: Automaton, file: Path, form: Callable[[Automaton], str]) -> None:
    """Write it to a file, whole or not at all; the folder is made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, form(machine).encode())
    except OSError as error:
        raise OptionError(f"{file} cannot be written ({reason(error)}). Choose another place.") from error
