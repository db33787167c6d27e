"""The picture of a cell: an SVG that is laid out from its graph.

Time runs from left to right: previous states, recurrent products, gates, elementwise operations, next states. What a box
reads besides (inputs `x.NAME`, per-unit parameters, masks) is docked below it. An activation and the sum inside it are
one box, as a lecturer would draw them; everything else stays apart.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum  # the same to the last bit in every version of Python
from xml.sax.saxutils import escape, quoteattr

from recurra.cells.graph import Graph, Group, Node, make, walk, write

_PAIRS = r"(\w+) (\S+)"
_SYMBOLS = dict(
    re.findall(_PAIRS, "add + subtract − multiply × divide ÷ remainder mod power ^ negate − sigmoid σ sqrt √")
)
_SYMBOLS |= {"minimum": "min", "maximum": "max"}
_GREEK = dict(
    re.findall(_PAIRS, "alpha α beta β gamma γ delta δ epsilon ε eta η theta θ mu μ rho ρ sigma σ tau τ phi φ")
)
_GREEK |= {"lambda": "λ", "omega": "ω"}
_INPUTS = ("drive", "parameter", "noise")
_ORDERED = ("subtract", "divide", "remainder", "power", "less", "less_equal")

FONT, SMALL, TINY = 15.0, 13.0, 12.0
PAD, MARGIN, LINE = 12.0, 24.0, 19.0
DISK, ROW, PILL = 32.0, 24.0, 21.0


@dataclass(eq=False)
class Box:
    """One thing on the picture. `y` is the height at which edges meet it, `above` and `below` how far it reaches."""

    kind: str
    name: str = ""
    lines: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)  # of a group of products: one for each, edges leave from there
    pills: dict[str, str] = field(default_factory=dict)  # what is docked below: text, kind
    hint: str = ""
    inputs: list[tuple[Box, str, str]] = field(default_factory=list)  # from where, from which row, written at the arrow
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def height(self) -> float:
        if self.kind in ("dummy", "operation"):
            return DISK if self.kind == "operation" else 0.0
        return max(34.0, 14 + LINE * (len(self.lines) + bool(self.name and self.kind == "gate")), ROW * len(self.rows))

    @property
    def above(self) -> float:
        return self.height / 2 + (LINE if self.kind == "operation" and self.name else 0)

    @property
    def below(self) -> float:
        return self.height / 2 + (PILL + 11 if self.pills else 0)

    @property
    def footprint(self) -> float:
        """The width with everything that is docked to it."""
        above = _text_width(self.name, FONT) if self.kind == "operation" else 0.0
        return max(self.width, above, fsum(_pill_width(text) + 6 for text in self.pills) - 6)

    def port(self, row: str) -> float:
        return (self.rows.index(row) - (len(self.rows) - 1) / 2) * ROW if self.rows else 0.0


class _Reader:
    """Reads a graph into boxes, folding what need not be seen."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.gates: dict[Node, str] = {}
        for name, node in graph.gates.items():
            self.gates[node] = f"{self.gates[node]}, {name}" if node in self.gates else name
        self.named = set(self.gates) | set(graph.updates)
        self.uses = Counter(argument for node in graph.nodes for argument in dict.fromkeys(node.arguments))
        late = [node for node in graph.nodes if node.kind == "state" and node.delay > 1]
        self.called = graph.written | {node: f"{node.name}_{{t−{node.delay}}}" for node in late}
        self.groups = {product: group for stage in graph.stages for group in stage for product in group.products}
        self.made: dict[Node | Group, Box] = {}
        self.boxes: list[Box] = []

    def read(self) -> list[Box]:
        for state, update in zip(self.graph.states, self.graph.updates, strict=True):
            box = Box("next", state.name, [f"{_show(state.name)}_{{t}}"], hint=f"{state.name}: the next state")
            self._connect(box, [update])
            self.boxes.append(box)
        return self.boxes

    def _connect(self, box: Box, nodes: Iterable[Node], marks: Sequence[str] = ()) -> None:
        """Let the box read the nodes: what comes from outside is docked, the rest arrives by an edge."""
        for place, node in enumerate(nodes):
            if self._is_docked(node):
                box.pills[_show(write(node, self.called))] = self._kind(node)
            else:
                source, row = self._source(node)
                if (source, row) not in [(known, port) for known, port, _ in box.inputs]:
                    box.inputs.append((source, row, marks[place] if marks else ""))

    @staticmethod
    def _kind(node: Node) -> str:
        kinds = {inner.kind for inner in walk([node])}
        return "drive" if "drive" in kinds else "noise" if "noise" in kinds else "parameter"

    def _is_docked(self, node: Node) -> bool:
        """Inputs and constants, and unnamed expressions of parameters alone, such as 1 − α."""
        if node.kind in (*_INPUTS, "constant"):
            return True
        inner = walk([node])
        return node not in self.named and not any(n.kind in ("state", "drive", "product", "norm") for n in inner)

    def _source(self, node: Node) -> tuple[Box, str]:
        """The box that gives the node's value, and the row of it."""
        key = self.groups.get(node, node)
        if key not in self.made:
            box = self.made[key] = self._group(key) if isinstance(key, Group) else self._box(node)
            self.boxes.append(box)
        return self.made[key], self._row(node) if node.kind == "product" else ""

    def _row(self, product: Node) -> str:
        name = f"U.{_show(product.name)}"
        return f"{_show(self.gates[product])} = {name}" if product in self.gates else name

    def _group(self, group: Group) -> Box:
        hint = "; ".join(write(product, self.called) for product in group.products)
        names = ", ".join(self.gates[product] for product in group.products if product in self.gates)
        box = Box("product", names, rows=[self._row(product) for product in group.products], hint=hint)
        self._connect(box, [group.argument])
        return box

    def _box(self, node: Node) -> Box:
        if node.kind == "state":
            label = f"{_show(node.name)}_{{t−{node.delay}}}"
            return Box("state", node.name, [label], hint=f"{node.name}, {node.delay} step(s) before")
        name = self.gates.get(node, "")
        hint = f"{name} = " * bool(name) + write(node, self.called)
        bare = [a for a in node.arguments if a.kind != "constant"]
        simple = [a for a in bare if a.kind != "product" and not self._is_docked(a) and not self._is_folded(a)]
        if len(node.arguments) == 1 and simple and not name and node.kind != "norm":
            box = Box("operation", name, [_SYMBOLS.get(node.kind, node.kind)], hint=hint)
            self._connect(box, bare)
            return box
        flowing = any(not self._is_docked(a) for a in bare)
        if len(node.arguments) == 2 and not node.is_condition and flowing and not self._is_affine(node):
            return self._operation(node, name, hint)
        return self._formula(node, name, hint)

    def _operation(self, node: Node, name: str, hint: str) -> Box:
        """+, × and the like, with a chain of the same operation as one and numbers written into it."""
        parts = list(self._chain(node, node.kind)) if node.kind in ("add", "multiply") else list(node.arguments)
        numbers = [f"{part.value:g}".replace("-", "−") for part in parts if part.kind == "constant"]
        rest = [part for part in parts if part.kind != "constant"]
        symbol = _SYMBOLS.get(node.kind, node.kind)
        if numbers and parts[0].kind == "constant" and node.kind in _ORDERED:
            symbol = f"{numbers[0]}{symbol}"
        elif numbers:
            symbol = f"{symbol}{''.join(numbers)}"
        marks = ["", symbol] if node.kind in _ORDERED and len(rest) == 2 else [""] * len(rest)
        box = Box("operation", name, [symbol], hint=hint)
        self._connect(box, rest, marks)
        return box

    def _chain(self, node: Node, kind: str) -> Iterator[Node]:
        for part in node.arguments:
            if part.kind == kind and part not in self.named and self.uses[part] == 1 and not self._is_affine(part):
                yield from self._chain(part, kind)
            else:
                yield part

    def _formula(self, node: Node, name: str, hint: str) -> Box:
        """A box with an equation in it: the node with all that is folded into it."""
        box, called = Box("gate", name, hint=hint), dict(self.called)
        stack = [node]
        while stack:
            inner = stack.pop()
            if inner.kind == "norm":
                self._connect(box, [make("parameter", name=inner.name)])
            for argument in inner.arguments:
                if argument.kind == "constant":
                    continue
                if argument.kind in (*_INPUTS, "state", "product") or not self._is_folded(argument):
                    self._connect(box, [argument])
                    called[argument] = self._word(argument)
                else:
                    stack.append(argument)
        box.pills = dict(sorted(box.pills.items(), key=lambda pill: pill[1] != "drive"))
        box.lines = textwrap.wrap(_show(write(node, called)), 46, break_long_words=False)
        return box

    def _word(self, node: Node) -> str:
        """How a formula calls what it reads from elsewhere."""
        if node in self.called:
            return self.called[node]
        if node.kind == "product":
            inner = write(node.arguments[0], self.called, top=False)
            return f"U.{node.name} {inner}" if re.fullmatch(r"[\w.']+(_\{.*\})?", inner) else f"U.{node.name}({inner})"
        return write(node) if node.kind in (*_INPUTS, "state") else "·"

    def _is_folded(self, node: Node) -> bool:
        """Whether the node is written inside the box that reads it."""
        if node.kind in ("state", "product") or node in self.named:
            return False
        return node.kind in _INPUTS or node.is_condition or self.uses[node] == 1

    def _is_affine(self, node: Node) -> bool:
        """A sum of inputs and products alone, as stands inside an activation."""
        if node.kind not in ("add", "subtract", "negate"):
            return False
        return all(
            a.kind in ("drive", "product", "parameter", "constant")
            or (a not in self.named and self.uses[a] == 1 and self._is_affine(a))
            for a in node.arguments
        )


def _show(text: str) -> str:
    """An equation of the notation as it stands on a slide; `_{…}` marks a subscript."""
    for plain, shown in ((" * ", " × "), (" - ", " − "), (" <= ", " ≤ "), ("sigmoid(", "σ("), ("sqrt(", "√(")):
        text = text.replace(plain, shown)
    text = re.sub(r"\b(\w*?[^\W_])_([^\W_]\w*)", r"\1_{\2}", text)
    text = re.sub(r"(?<![\w.])-(?=[\w.(])", "−", text)
    return re.sub(r"(?<![^\W_])[a-z]+(?![^\W_])", lambda word: _GREEK.get(word[0], word[0]), text)


@dataclass(eq=False)
class _Layout:
    """Boxes in columns, with a dummy node in each column that a long edge passes (Sugiyama et al. 1981)."""

    boxes: list[Box]
    columns: list[list[Box]] = field(default_factory=list)
    links: list[tuple[Box, Box]] = field(default_factory=list)  # between neighbouring columns
    dummies: dict[tuple[Box, str], list[Box]] = field(default_factory=dict)
    edges: list[tuple[Box, str, Box, str]] = field(default_factory=list)

    def arrange(self) -> _Layout:
        for step in (self._assign_layers, self._add_dummies, self._order, self._place):
            step()
        return self

    def _assign_layers(self) -> None:
        self.edges = [(source, row, box, mark) for box in self.boxes for source, row, mark in box.inputs]
        for box in self.boxes:
            box.layer = 0 if box.kind == "state" else 1
        for _ in self.boxes:
            for source, _, target, _ in self.edges:
                target.layer = max(target.layer, source.layer + 1)
        last = max(box.layer for box in self.boxes)
        for box in self.boxes:
            if box.kind == "next":
                box.layer = last
        for box in self.boxes:  # a gate that sees only the input stands right before its reader
            readers = [target.layer for source, _, target, _ in self.edges if source is box]
            if readers and not box.inputs and box.kind != "state":
                box.layer = min(readers) - 1
        first = min(box.layer for box in self.boxes)
        self.columns = [[] for _ in range(last + 1 - first)]
        for box in self.boxes:
            box.layer -= first
            self.columns[box.layer].append(box)

    def _add_dummies(self) -> None:
        for source, row, target, _ in self.edges:
            dummies = self.dummies.setdefault((source, row), [])
            while source.layer + len(dummies) + 1 < target.layer:
                dummy = Box("dummy", layer=source.layer + len(dummies) + 1)
                self.links.append((dummies[-1] if dummies else source, dummy))
                self.columns[dummy.layer].append(dummy)
                dummies.append(dummy)
        for source, row, target, _ in self.edges:
            self.links.append((self.before(source, row, target), target))

    def before(self, source: Box, row: str, target: Box) -> Box:
        """The last dummy on the way to the target, or the source itself."""
        steps = target.layer - source.layer - 1
        return self.dummies[source, row][steps - 1] if steps else source

    def _order(self) -> None:
        """Barycentres from several starting orders; the one with the fewest crossings and the shortest edges stays."""
        chance, found = random.Random(0), []
        for attempt in range(16):
            columns = [chance.sample(column, len(column)) if attempt else list(column) for column in self.columns]
            for sweep in range(8):
                self._sweep(columns, backwards=sweep % 2 == 1)
            self._swap_neighbours(columns)
            found.append((self._cost(columns, self.links), columns))
        self.columns = min(found, key=lambda each: each[0])[1]

    def _sweep(self, columns: list[list[Box]], backwards: bool) -> None:
        near: dict[Box, list[Box]] = {}
        for left, right in self.links:
            near.setdefault(left if backwards else right, []).append(right if backwards else left)
        for column in reversed(columns) if backwards else columns:
            place = _places(columns)
            places = {box: [place[n] for n in near.get(box, [box])] for box in column}
            column.sort(key=lambda box: fsum(places[box]) / len(places[box]))

    def _swap_neighbours(self, columns: list[list[Box]]) -> None:
        better = True
        while better:
            better = False
            for column in columns:
                touching = [link for link in self.links if link[0] in column or link[1] in column]
                for k in range(len(column) - 1):
                    before = self._cost(columns, touching)
                    column[k], column[k + 1] = column[k + 1], column[k]
                    if self._cost(columns, touching) < before:
                        better = True
                    else:
                        column[k], column[k + 1] = column[k + 1], column[k]

    @staticmethod
    def _cost(columns: list[list[Box]], links: list[tuple[Box, Box]]) -> tuple[int, float]:
        place = _places(columns)
        crossings = sum(
            (place[a] - place[c]) * (place[b] - place[d]) < 0
            for k, (a, b) in enumerate(links)
            for c, d in links[k + 1 :]
            if a.layer == c.layer
        )
        return crossings, round(fsum(abs(place[a] - place[b]) for a, b in links), 6)

    def _place(self) -> None:
        for column in self.columns:
            widest = max((_natural_width(box) for box in column if box.kind == "gate"), default=0.0)
            for box in column:
                box.width = widest if box.kind == "gate" else _natural_width(box)
            self._settle(column, [0.0] * len(column))
        for _ in range(100):
            self._sort_rows()
            for column in self.columns:
                self._settle(column, self._wishes(column))
        for dummies in self.dummies.values():
            self._straighten(dummies)
        self._give_coordinates()

    def _wishes(self, column: list[Box]) -> list[float]:
        """The mean height of each box's neighbours; dummies pull at dummies most, so that long edges run straight."""
        pulls: dict[Box, list[tuple[float, float]]] = {box: [(box.y, 1e-6)] for box in column}
        for source, row, target, _ in self.edges:
            path = [source, *self.dummies[source, row][: target.layer - source.layer - 1], target]
            for left, right in pairwise(path):
                port = left.port(row) if left is source else 0.0
                pull = 8.0 if left.kind == right.kind == "dummy" else 1.0
                if left in pulls:
                    pulls[left].append((right.y - port, pull))
                if right in pulls:
                    pulls[right].append((left.y + port, pull))
        return [fsum(y * pull for y, pull in pulls[box]) / fsum(pull for _, pull in pulls[box]) for box in column]

    def _straighten(self, dummies: list[Box]) -> None:
        """One height for as long a run of dummies as there is room for, from the end backwards."""
        k = len(dummies)
        while k:
            low, high, start = -1e9, 1e9, k
            while start:
                column = self.columns[dummies[start - 1].layer]
                place = column.index(dummies[start - 1])
                floor = column[place - 1].y + _distance(column[place - 1], dummies[0]) if place else -1e9
                room = (
                    column[place + 1].y - _distance(dummies[0], column[place + 1]) if place + 1 < len(column) else 1e9
                )
                if max(low, floor) > min(high, room) + 1e-6:
                    break
                low, high, start = max(low, floor), min(high, room), start - 1
            wish = fsum(dummy.y for dummy in dummies[start:k]) / (k - start)
            for dummy in dummies[start:k]:
                dummy.y = min(max(wish, low), high)
            k = start

    def _give_coordinates(self) -> None:
        x = MARGIN
        for k, column in enumerate(self.columns):
            width = max(box.footprint for box in column)
            for box in column:
                box.x = x + (width - box.width) / 2
                if box.kind == "dummy":
                    box.x, box.width = x, width
            crossing = sum(left.layer == k for left, _ in self.links)
            x += width + min(84.0, 40.0 + 6 * crossing)
        top = min(box.y - box.above for column in self.columns for box in column)
        for column in self.columns:
            for box in column:
                box.y = round(box.y - top + MARGIN, 1)
                box.x, box.width = round(box.x, 1), round(box.width, 1)

    def _sort_rows(self) -> None:
        """The rows of a product box in the order of the boxes that read them."""
        for box in (each for each in self.boxes if each.rows):
            heights: dict[str, list[float]] = {row: [] for row in box.rows}
            for source, row, target, _ in self.edges:
                if source is box:
                    heights[row].append(self.dummies[source, row][0].y if self.dummies[source, row] else target.y)
            box.rows.sort(key=lambda row: fsum(heights[row]) / max(1, len(heights[row])))

    @staticmethod
    def _settle(column: list[Box], wishes: list[float]) -> None:
        """Heights nearest to the wishes, in least squares, that keep the order and the distances."""
        offset, offsets = 0.0, []
        for k, box in enumerate(column):
            if k:
                offset += _distance(column[k - 1], box)
            offsets.append(offset)
        blocks: list[tuple[float, int]] = []  # mean and size: pool neighbours that are out of order
        for wish, shift in zip(wishes, offsets, strict=True):
            blocks.append((wish - shift, 1))
            while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                (b, m), (a, n) = blocks.pop(), blocks.pop()
                blocks.append(((a * n + b * m) / (n + m), n + m))
        heights = [mean for mean, size in blocks for _ in range(size)]
        for box, height, shift in zip(column, heights, offsets, strict=True):
            box.y = height + shift


def _distance(upper: Box, lower: Box) -> float:
    return upper.below + lower.above + (16.0 if upper.kind == lower.kind == "dummy" else 18.0)


def _places(columns: list[list[Box]]) -> dict[Box, float]:
    """How far down its column each box stands, 0 to 1."""
    return {box: (k + 0.5) / len(column) for column in columns for k, box in enumerate(column)}


def _natural_width(box: Box) -> float:
    match box.kind:
        case "dummy":
            return 0.0
        case "operation":
            return max(DISK, _text_width(box.lines[0], FONT) + 14)
        case "product":
            return max(_text_width(row, FONT) for row in box.rows) + 2 * PAD
    formula = max(_text_width(line, FONT if box.kind != "gate" else SMALL) for line in box.lines)
    return max(formula, _text_width(box.name, FONT) if box.kind == "gate" else 0.0, 28.0) + 2 * PAD


def _pill_width(text: str) -> float:
    return _text_width(text, TINY) + 16


def _text_width(text: str, size: float) -> float:
    """An upper estimate for common sans-serif fonts: the widths of DejaVu Sans."""
    total = 0.0
    for part, low in _parts(text):
        for c in part:
            width = 0.35 if c in "ijl.,'()| ·" else 0.98 if c in "mwMW" else 0.84 if c in "+−×÷=<≤≥" else 0.66
            total += width * (0.75 if low else 1.0)
    return total * size


def _parts(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is a subscript."""
    pieces = re.split(r"_\{([^}]*)\}", text)
    return [(piece, k % 2 == 1) for k, piece in enumerate(pieces) if piece]


_STYLE = """
text { font-family: "DejaVu Sans", Verdana, "Segoe UI", Helvetica, Arial, sans-serif; text-anchor: middle; white-space: pre; }
.before { text-anchor: end; } .after { text-anchor: start; }
.paper { fill: #ffffff; } text { fill: #1b1f24; } .edge { fill: none; stroke: #57606a; stroke-width: 1.6; stroke-linecap: round; }
.tip, .joint { fill: #57606a; } .mark { fill: #57606a; font-size: 12px; } .name { font-weight: bold; }
.box { stroke-width: 1.6; }
.state .box, .next .box { fill: #fff1d6; stroke: #b86e00; } .product .box { fill: #d9f2e8; stroke: #007a59; }
.gate .box { fill: #e2eefb; stroke: #0063a6; } .operation .box { fill: #ffffff; stroke: #57606a; }
.pill { stroke-width: 1.2; } .drive .pill { fill: #f9e6f1; stroke: #a8437f; }
.parameter .pill { fill: #f1f2f4; stroke: #57606a; } .noise .pill { fill: #f1f2f4; stroke: #57606a; stroke-dasharray: 3 2; }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; } text { fill: #e6edf3; } .edge { stroke: #9aa5b1; } .tip, .joint, .mark { fill: #9aa5b1; }
.state .box, .next .box { fill: #3d2a06; stroke: #e69f00; } .product .box { fill: #06382b; stroke: #2fc49a; }
.gate .box { fill: #0b2d4d; stroke: #56b4e9; } .operation .box { fill: #0d1117; stroke: #9aa5b1; }
.drive .pill { fill: #431a34; stroke: #e08fbf; } .parameter .pill, .noise .pill { fill: #21262d; stroke: #9aa5b1; }
}
"""


def draw(graph: Graph) -> str:
    """The cell as SVG, the same bytes for the same graph. Boxes carry `data-name` and show their equation when pointed at.

    ```python
    rc.plots.draw_cell(rc.find_cell("gru").graph)
    ```
    """
    layout = _Layout(_Reader(graph).read()).arrange()
    every = [box for column in layout.columns for box in column]
    width = max(box.x + (box.width + box.footprint) / 2 for box in every) + MARGIN
    height = max(box.y + box.below for box in every) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" xml:space="preserve">',
        f"<title>{escape(graph.name)}</title>",
        f"<desc>{escape('; '.join(graph.equations()))}</desc>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0.5 L8 4 L0 7.5 z"/></marker></defs>',
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="10"/>',
        *_draw_edges(layout),
        *(line for box in every if box.kind != "dummy" for line in _draw_box(box)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _draw_edges(layout: _Layout) -> Iterator[str]:
    sides = [
        (min(b.x + (b.width - b.footprint) / 2 for b in column), max(b.x + (b.width + b.footprint) / 2 for b in column))
        for column in layout.columns
    ]

    def curve(left: Box, y0: float, right: Box, y1: float, end: float) -> str:
        a, b = sides[left.layer][1], sides[right.layer][0]
        start, middle = left.x + left.width, (a + b) / 2
        return (
            f"M{start:.1f} {y0:.1f} L{a:.1f} {y0:.1f} "
            f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {b:.1f} {y1:.1f} L{end:.1f} {y1:.1f}"
        )

    for (source, row), dummies in layout.dummies.items():
        here, y = source, source.y + source.port(row)
        for dummy in dummies:
            yield f'<path class="edge" d="{curve(here, y, dummy, dummy.y, dummy.x + dummy.width)}"/>'
            here, y = dummy, dummy.y
    ends: dict[Box, list[tuple[float, Box, str]]] = {}
    for source, row, target, mark in layout.edges:
        last = layout.before(source, row, target)
        leaves = last.y + (last.port(row) if last is source else 0.0)
        ends.setdefault(target, []).append((leaves, last, mark))
    for target, arrivals in ends.items():
        arrivals.sort(key=lambda arrival: arrival[0])
        reach = 9.0 if target.kind == "operation" else min(6.0 * len(arrivals), target.height / 2 - 6)
        for k, (leaves, last, mark) in enumerate(arrivals):
            share = 2 * k / (len(arrivals) - 1) - 1 if len(arrivals) > 1 else 0.0
            y = target.y + share * reach
            bend = DISK / 2 - (DISK**2 / 4 - (share * reach) ** 2) ** 0.5 if target.kind == "operation" else 0.0
            path = curve(last, leaves, target, y, target.x + bend)
            yield f'<path class="edge" marker-end="url(#tip)" d="{path}"/>'
            if last.kind == "dummy" and any(left is last and right.kind == "dummy" for left, right in layout.links):
                yield f'<circle class="joint" cx="{last.x + last.width:.1f}" cy="{last.y:.1f}" r="2.6"/>'
            if mark:
                side = -6 if share < 0 else 14
                yield f'<text class="mark" x="{target.x - 8:.1f}" y="{y + side:.1f}">{escape(mark)}</text>'


def _draw_box(box: Box) -> Iterator[str]:
    left, top, middle = box.x, box.y - box.height / 2, box.x + box.width / 2
    round_ = {"operation": DISK / 2, "state": 17.0, "next": 17.0, "gate": 7.0}.get(box.kind, 2.0)
    yield f'<g class="{box.kind}" data-name={quoteattr(box.name)}><title>{escape(box.hint)}</title>'
    yield (
        f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{round_:.0f}"/>'
    )
    if box.rows:
        for row in box.rows:
            yield _text(row, middle, box.y + box.port(row), FONT)
    elif box.kind == "gate":
        lines = [box.name] * bool(box.name) + box.lines
        for k, line in enumerate(lines):
            is_name = bool(box.name) and k == 0
            y = box.y + (k - (len(lines) - 1) / 2) * LINE
            yield _text(
                _show(line) if is_name else line, middle, y, FONT if is_name else SMALL, "name" if is_name else "label"
            )
    else:
        yield _text(box.lines[0], middle, box.y, FONT)
        if box.kind == "operation" and box.name:
            yield _text(_show(box.name), middle, top - LINE / 2, FONT, "name")
    yield "</g>"
    x = middle - (fsum(_pill_width(text) + 6 for text in box.pills) - 6) / 2
    base = box.y + box.height / 2
    for text, kind in box.pills.items():
        width = _pill_width(text)
        anchor = min(max(x + width / 2, left + 8), left + box.width - 8) if box.kind != "operation" else middle
        yield f'<g class="{kind}" data-name={quoteattr(text)}>'
        yield f'<path class="edge" d="M{x + width / 2:.1f} {base + 11:.1f} L{anchor:.1f} {base:.1f}"/>'
        yield (
            f'<rect class="pill" x="{x:.1f}" y="{base + 11:.1f}" width="{width:.1f}" height="{PILL:.1f}" '
            f'rx="{PILL / 2:.1f}"/>'
        )
        yield _text(text, x + width / 2, base + 11 + PILL / 2, TINY)
        yield "</g>"
        x += width + 6


def _text(text: str, x: float, y: float, size: float, kind: str = "label") -> str:
    """Text centred at a point, with subscripts.

    A letter and its subscript, the usual case, meet at one point and are two texts: some programs that show SVG do not lower
    a part of a text. Longer ones are one text.
    """
    parts = _parts(text)
    if [low for _, low in parts] == [False, True]:
        (base, _), (index, _) = parts
        join = x + _text_width(base, size) - _text_width(text, size) / 2
        y = y + 0.35 * size
        return (
            f'<text class="{kind} before" x="{join:.1f}" y="{y:.1f}" font-size="{size:g}">{escape(base)}</text>'
            f'<text class="{kind} after" x="{join:.1f}" y="{y + 0.28 * size:.1f}" '
            f'font-size="{0.75 * size:.1f}">{escape(index)}</text>'
        )
    spans, sunk = [], 0.0
    for part, low in parts:
        wanted = 0.28 * size if low else 0.0
        move = f' dy="{wanted - sunk:.1f}"' if wanted != sunk else ""
        small = f' font-size="{0.75 * size:.1f}"' if low else ""
        spans.append(f"<tspan{move}{small}>{escape(part)}</tspan>" if move or small else escape(part))
        sunk = wanted
    return f'<text class="{kind}" x="{x:.1f}" y="{y + 0.35 * size:.1f}" font-size="{size:g}">{"".join(spans)}</text>'
