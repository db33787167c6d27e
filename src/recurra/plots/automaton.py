"""Machines on paper: SVG drawn without any other program, and the languages of Graphviz and Mermaid.

In the drawing each state is a row: first where ways come in, then a line for each way that leaves, its symbols written on it.
Ways to one state run down one lane, so no label lies under a line, however many states there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from recurra.analysis.automata.finite import Machine, Mealy, Moore
from recurra.analysis.automata.weighted import Weighted
from recurra.errors import OptionError
from recurra.runs.disk import reason, replace_file

LINE, LANE, LETTER, MARGIN = 20, 16, 7.2, 16
"""Of the drawing, in pixels: the height of a line, the distance of lanes, the width of a letter, the edge."""
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#0b7285", "#cf222e")
FEW = 3
"""So many symbols are named on a way; the largest group of more is "any other"."""
LIKELY, RARE = 6, 0.02
"""Of a state with chances, so many symbols at most are drawn, and none that is rarer; the others are said in one line."""
NOWHERE = -2
"""Where something leads that is written at a state and has no way."""


@dataclass(frozen=True)
class Way:
    """From a state to another (−1: not known; `NOWHERE`: only words), and what is written on it."""

    start: int
    to: int
    label: str


def state_names(machine: Machine | Weighted) -> list[str]:
    """What each state is called: what it says, with a number where several say it.

    Of a weighted automaton: its number, the symbols that lead to it most often, and the share of all steps that do.
    """
    if isinstance(machine, Weighted):
        return [_weighted_name(machine, state) for state in range(machine.size)]
    if not isinstance(machine, Moore):
        return [str(state) for state in range(machine.size)]
    said = [name or "start" for name in machine.says]
    many, seen = Counter(said), Counter[str]()
    names = []
    for name in said:
        seen[name] += 1
        names.append(f"{name} {seen[name]}" if many[name] > 1 else name)
    return names


def _weighted_name(machine: Weighted, state: int) -> str:
    share = float(machine.entered[state].sum())
    top = machine.entered[state].topk(min(FEW, len(machine.symbols)))
    led = [shown(machine.symbols[k]) for part, k in zip(top.values, top.indices.tolist(), strict=True) if part > 0]
    return f"{state}: after {', '.join(led)} ({share:.0%})" if led else f"{state}: start"


def shown(symbol: str) -> str:
    """A symbol's name as it can be read in a list: in quotation marks where it is blank, a comma or cannot be printed."""
    return symbol if symbol.isprintable() and symbol.strip() == symbol not in ("", ",") else repr(symbol)


def ways(machine: Machine | Weighted) -> list[Way]:
    """The ways of each state, symbols that lead alike together; of a weighted automaton the likely ones."""
    if isinstance(machine, Weighted):
        return [way for state in range(machine.size) for way in _weighted_ways(machine, state)]
    found = []
    for state, row in enumerate(machine.after):
        groups: dict[tuple[int, str], list[str]] = {}
        for k, then in enumerate(row):
            answer = f" / {machine.says[state][k]}" if isinstance(machine, Mealy) and then >= 0 else ""
            groups.setdefault((then, answer), []).append(shown(machine.symbols[k]))
        largest = max(groups, key=lambda group: (group[0] >= 0, len(groups[group])))
        any_other = "any" if len(groups) == 1 else "any other known" if -1 in row else "any other"
        for (then, answer), symbols in groups.items():
            rest = (then, answer) == largest and len(symbols) > FEW
            said = any_other if rest else ", ".join(symbols)
            found.append(Way(state, then, said + answer))
    return found


def _weighted_ways(machine: Weighted, state: int) -> list[Way]:
    """The likeliest symbols with their chances, by where they lead; then how many others there are, and their chance."""
    groups: dict[int, list[str]] = {}
    order = machine.chances[state].sort(descending=True)
    likely = [(k, p) for k, p in zip(order.indices.tolist(), order.values.tolist(), strict=True) if p >= RARE][:LIKELY]
    for k, chance in likely:
        then = int(machine.after[state, k]) if k < len(machine.symbols) else NOWHERE
        groups.setdefault(then, []).append(f"{shown(machine.classes[k])} {chance:.2f}")
    others, rest = len(machine.classes) - len(likely), 1 - sum(chance for _, chance in likely)
    found = [Way(state, then, ", ".join(symbols)) for then, symbols in groups.items()]
    return [*found, Way(state, NOWHERE, f"{others} others {rest:.2f}")] if rest >= 0.005 else found


def _with_words(machine: Machine | Weighted, between: str) -> list[str]:
    """The names of states, each with what is only written there."""
    words = [way for way in ways(machine) if way.to == NOWHERE]
    return [
        between.join([name, *(way.label for way in words if way.start == state)])
        for state, name in enumerate(state_names(machine))
    ]


def to_dot(machine: Machine | Weighted) -> str:
    """For Graphviz."""
    lines = ["digraph machine {", "  rankdir=LR;", '  node [shape=box, style=rounded]; start [shape=point, label=""];']
    lines += [f"  {k} [label={_quoted(name)}];" for k, name in enumerate(_with_words(machine, "\n"))]
    lines.append("  start -> 0;")
    lines += [f"  {way.start} -> {way.to} [label={_quoted(way.label)}];" for way in ways(machine) if way.to >= 0]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_mermaid(machine: Machine | Weighted) -> str:
    """For Mermaid, which Markdown pages show as a picture."""

    def plain(text: str) -> str:
        return "".join(sign if sign.isalnum() or sign in " ,/-ε" else f"#{ord(sign)};" for sign in text)

    lines = ["stateDiagram-v2", "  direction LR"]
    lines += [f'  state "{plain(name)}" as s{k}' for k, name in enumerate(_with_words(machine, "; "))]
    lines.append("  [*] --> s0")
    lines += [f"  s{way.start} --> s{way.to}: {plain(way.label)}" for way in ways(machine) if way.to >= 0]
    return "\n".join(lines) + "\n"


def to_svg(machine: Machine | Weighted) -> str:
    """A picture that needs no other program."""
    names, known = state_names(machine), [way for way in ways(machine) if way.to != -1]
    rows: list[list[Way]] = [[way for way in known if way.start == state] for state in range(machine.size)]
    tops, y = [], float(MARGIN)
    for row in rows:
        tops.append(y)
        y += LINE * (len(row) + 1) + LINE / 2
    box = 24 + LETTER * max(len(name) for name in names)
    text = MARGIN + box + 10
    lanes_from = text + LETTER * max([len(way.label) + 2 for way in known], default=0) + 10
    lane = _lanes(rows, machine.size)
    width = lanes_from + LANE * (max(lane.values(), default=0) + 1) + MARGIN
    parts = []
    for state, name in enumerate(names):
        colour, height = COLOURS[state % len(COLOURS)], LINE * (len(rows[state]) + 1) - 4
        parts.append(
            f'<rect x="{MARGIN}" y="{tops[state]:g}" width="{box:g}" height="{height}" rx="8" fill="none" stroke="{colour}" '
            f'stroke-width="{3 if state == 0 else 1.5}"/>'
            f'<text x="{MARGIN + box / 2:g}" y="{tops[state] + height / 2 + 4:g}" text-anchor="middle" font-weight="bold">'
            f"{escape(name)}</text>"
        )
        joined = []
        for k, way in enumerate(rows[state]):
            joined.append((way, tops[state] + LINE * (k + 1) + LINE / 2 - 4))
            sign = " ↺" if way.to == state else ""
            parts.append(f'<text x="{text:g}" y="{joined[-1][1] + 4:g}">{escape(way.label)}{sign}</text>')
        for way, at in joined:
            if way.to not in (state, NOWHERE):
                end, x = tops[way.to] + LINE / 2 - 4, lanes_from + LANE * lane[way.to]
                begin = text + LETTER * (len(way.label) + 1)
                parts.append(
                    f'<path d="M{begin:g} {at:g}H{x:g}V{end:g}H{MARGIN + box + 2:g}" fill="none" '
                    f'stroke="{COLOURS[way.to % len(COLOURS)]}" marker-end="url(#head)"/>'
                )
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
    )
    style = (
        "text{font:12px ui-monospace,monospace;fill:#1f2328}.page{fill:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y + MARGIN:g}" width="{width:g}" '
        f'height="{y + MARGIN:g}"><style>{style}</style><defs>{head}</defs><rect class="page" width="100%" height="100%"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def _lanes(rows: list[list[Way]], size: int) -> dict[int, int]:
    """The lane of each state that ways lead to: shorter ones further in, none on top of another."""
    reach: dict[int, tuple[int, int]] = {}
    for state in range(size):
        others = [way.start for row in rows for way in row if way.to == state and way.start != state]
        if others:
            reach[state] = (min(state, *others), max(state, *others))
    lanes: list[list[tuple[int, int]]] = []
    found = {}
    for state, (low, high) in sorted(reach.items(), key=lambda item: item[1][1] - item[1][0]):
        free = (k for k, taken in enumerate(lanes) if all(high < a or b < low for a, b in taken))
        found[state] = next(free, len(lanes))
        if found[state] == len(lanes):
            lanes.append([])
        lanes[found[state]].append((low, high))
    return found


WRITERS: dict[str, Callable[[Machine | Weighted], str]] = {"dot": to_dot, "mermaid": to_mermaid, "svg": to_svg}


def write_machine(machine: Machine | Weighted, file: Path, form: Callable[[Machine | Weighted], str]) -> None:
    """Write it to a file, whole or not at all; the folder is made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, form(machine).encode())
    except OSError as error:
        raise OptionError(f"{file} cannot be written ({reason(error)}). Choose another place.") from error
