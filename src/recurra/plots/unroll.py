"""The rolled and the unrolled graph, the pairs (t, k) that truncations keep, and every wire of a small network.

Text is drawn as outlines, so that subscripts stand where they should in every program that shows SVG. Each node and arrow has an
id in the file: `node-state-2-0-0`, `arrow-U-1-2`, `pair-3-1-kept`.
"""

from __future__ import annotations

from typing import Any

from recurra.lecture.pairs import Pairs, Truncations
from recurra.lecture.unroll import Arrow, Node, UnrolledGraph, Wiring
from recurra.plots.figure import COLOURS, inks, painter

FILLS = {"input": COLOURS[5], "state": COLOURS[2], "output": COLOURS[4], "target": COLOURS[7], "loss": COLOURS[1]}
SHARED = {"W": COLOURS[0], "U": COLOURS[2], "V": COLOURS[4], "R": COLOURS[3]}
"""By the first letter of shared weights: arrows that share them share a colour."""
CUT = 0.12
"""How visible a cut pair is."""
RADIUS = 0.3
ACROSS, UP = 1.5, 1.25
"""The distance of steps and of rows, for a disk of this radius."""
GAP = 0.3
"""Steps between an encoder and its decoder."""
APART = 2.9
"""How far apart these two stand in the rolled graph."""


def _parts(graph: UnrolledGraph) -> list[str]:
    """Encoder and decoder; or the one part without a name."""
    return list(dict.fromkeys(node.part for node in graph.nodes))


def _columns(graph: UnrolledGraph) -> float:
    decoder = max((node.step for node in graph.nodes if node.part == "decoder"), default=0)
    return graph.steps + 1 + (decoder + GAP if decoder else 0)


def _size(graph: UnrolledGraph) -> tuple[float, float]:
    rows = graph.layers * (2 if graph.bidirectional else 1) + 3.6
    width = 0.5 + 2.7 * len(_parts(graph)) + 1.35 * _columns(graph)
    return width, 0.8 + 1.1 * rows + (0.5 * graph.steps + 1.2 if _has_pairs(graph) else 0)


def _has_pairs(graph: UnrolledGraph) -> bool:
    return graph.sizes is not None or graph.truncation != "none"


@painter(UnrolledGraph, _size)
def paint_unrolled(axis: Any, graph: UnrolledGraph, *, rolled: bool = True, backward: bool = True) -> None:
    """`rolled`: also the graph with its loop. `backward`: the way of the gradient, where it is known or cut."""
    figure = axis.figure
    axis.remove()
    widths = [2.0 * len(_parts(graph)), _columns(graph)] if rolled else [1]
    tall = 3.6 + graph.layers * (2 if graph.bidirectional else 1)
    heights = [tall, 0.5 * graph.steps + 0.8] if backward and _has_pairs(graph) else [tall]
    cells = figure.add_gridspec(len(heights), len(widths), width_ratios=widths, height_ratios=heights)
    if rolled:
        _Drawing(figure.add_subplot(cells[0, 0]), graph).rolled()
    _Drawing(figure.add_subplot(cells[0, -1]), graph).unrolled(backward=backward)
    if len(heights) > 1:
        sizes = None if graph.sizes is None else graph.sizes.numpy()
        below = figure.add_subplot(cells[1, -1])
        title = f"pairs (t, k) that {graph.truncation} keeps" if graph.truncation != "none" else "all pairs (t, k)"
        title += "" if sizes is None else ", with ‖∂s(t)/∂s(t−k)‖"
        paint_pairs(below, graph.kept.numpy(), title, sizes)
        below.set_aspect("equal" if sizes is None else 0.6)


class _Drawing:
    """One graph on one axis, a unit for each step and row."""

    def __init__(self, axis: Any, graph: UnrolledGraph):
        self.axis, self.graph = axis, graph
        self.paper, self.ink = inks(axis)
        self.directions = 2 if graph.bidirectional else 1
        self.top = graph.layers * self.directions + 1
        self.read = any(arrow.start.kind == "target" and arrow.kind == "fed" for arrow in graph.arrows)
        self.disks: dict[tuple[float, float], Any] = {}
        axis.set_aspect("equal")
        axis.axis("off")

    def place(self, node: Node) -> tuple[float, float]:
        """Of two directions the second stands a little to the right, so that no arrow passes through a disk."""
        x = ACROSS * (node.step + (self.graph.steps + GAP if node.part == "decoder" else 0))
        if self.directions == 2:
            x += 0.6 * node.direction if node.kind == "state" else 0.3
        if node.kind == "target":
            # a target that is read at the next step stands on that side: its arrow passes no disk
            return x + (0.55 if self.read else -0.55), UP * (self.top + 0.8)
        row = {"input": 0.0, "output": float(self.top), "loss": self.top + 1.3}.get(
            node.kind, 1.0 + node.layer * self.directions + node.direction
        )
        return x, UP * row

    def words(self, node: Node, step: str | None = None) -> str:
        when = str(node.step) if step is None else step
        if node.kind != "state":
            letter = {"input": "x", "output": r"\hat{y}", "target": "y", "loss": "L"}[node.kind]
            return f"${letter}_{{{when}}}$"
        layer = f"^{{({node.layer + 1})}}" if self.graph.layers > 1 else ""
        name = (lambda s: rf"\overleftarrow{{{s}}}") if node.direction else (lambda s: s)
        return ", ".join(f"${name(state)}{layer}_{{{when}}}$" for state in map(_letter, self.graph.states))

    def disk(self, node: Node, at: tuple[float, float], step: str | None = None) -> None:
        from matplotlib.patches import Circle, FancyBboxPatch

        small, start = node.kind == "target", node.kind == "state" and node.step in (0, self.graph.steps + 1)
        look: dict[str, Any] = {
            "fc": FILLS[node.kind],
            "ec": self.ink,
            "lw": 1.2,
            "alpha": 0.35 if start else 1.0,
            "zorder": 4,
        }
        wide = len(self.graph.states) - 1 if node.kind == "state" else 0
        if wide:
            shape: Any = FancyBboxPatch(
                (at[0] - 0.2 - 0.09 * wide, at[1] - 0.16), 0.4 + 0.18 * wide, 0.32, "round,pad=0.07", **look
            )
        else:
            shape = Circle(at, RADIUS * (0.62 if small else 1), **look)
        shape.set_gid(
            f"node-{node.kind}-{node.step}-{node.layer}-{node.direction}" + (f"-{node.part}" if node.part else "")
        )
        self.axis.add_patch(shape)
        self.disks[at] = shape
        colour = self.ink if start else "#111111"
        size = 11 if small else 14 if not wide else 11
        self.axis.text(
            *at, self.words(node, step), ha="center", va="center", color=colour, size=size, zorder=5, parse_math=True
        )

    def line(
        self,
        a: Any,
        b: Any,
        colour: str,
        words: str = "",
        gid: str = "",
        bend: float = 0.0,
        along: float = 0.5,
        **look: Any,
    ) -> None:
        """An arrow; `along`: where on it its words stand."""
        from matplotlib.patches import FancyArrowPatch

        style: dict[str, Any] = {
            "lw": 1.6,
            "arrowstyle": "-|>",
            "mutation_scale": 14,
            "zorder": 3,
            "shrinkA": 1,
            "shrinkB": 1,
        } | look
        ends: dict[str, Any] = {"patchA": self.disks.get(a), "patchB": self.disks.get(b)}
        patch = FancyArrowPatch(a, b, connectionstyle=f"arc3,rad={bend}", color=colour, **ends, **style)
        if gid:
            patch.set_gid(gid)
        self.axis.add_patch(patch)
        if words:
            (x0, y0), (x1, y1) = a, b
            off = 2 * along * (1 - along) * bend  # the middle of a quadratic arc stands half of its bend off the chord
            middle = x0 + along * (x1 - x0) + off * (y1 - y0), y0 + along * (y1 - y0) - off * (x1 - x0)
            box = {"fc": self.paper, "ec": "none", "pad": 0.8, "alpha": 0.9}
            self.axis.text(
                *middle, words, ha="center", va="center", size=11, color=self.ink, bbox=box, zorder=6, parse_math=True
            )

    def arrow(self, arrow: Arrow) -> None:
        colour = SHARED.get(arrow.weights[:1], self.ink)
        far = arrow.delay > 1 or (
            arrow.start.kind == "state" == arrow.end.kind and arrow.start.layer + 1 < arrow.end.layer
        )
        skip = not arrow.weights and arrow.start.kind == "state" and arrow.end.kind == "output"
        self.line(
            self.place(arrow.start),
            self.place(arrow.end),
            colour,
            _shown(arrow.weights),
            f"arrow-{arrow.weights or 'none'}-{arrow.start.step}-{arrow.end.step}",
            bend=0.45 if far or skip else 0.0,
            along=self.along(arrow),
            ls="--" if arrow.kind == "fed" or skip else "-",
        )

    def along(self, arrow: Arrow) -> float:
        """Where the name of an arrow stands: its middle, unless another arrow crosses it there."""
        if arrow.delay > 1:
            return 0.27  # half way it passes below a state, whose input comes up there
        (_, low), (_, high) = self.place(arrow.start), self.place(arrow.end)
        if self.directions == 2 and high - low > 1.5 * UP:
            return 0.75 if arrow.end.kind == "state" else 0.25  # half way it passes the other direction's arrows
        return 0.5

    def unrolled(self, backward: bool) -> None:
        graph = self.graph
        for node in graph.nodes:
            ends = node.kind == "state" and node.direction == 1 and node.step == graph.steps + 1
            self.disk(node, self.place(node), "0" if ends else None)
        for arrow in graph.arrows:
            self.arrow(arrow)
        if backward and _has_pairs(graph) and not any(node.part for node in graph.nodes):
            self.way_back()
        places = [self.place(node)[0] for node in graph.nodes]
        self.axis.set(xlim=(min(places) - 0.7, max(places) + 0.7), ylim=(-0.95, UP * (self.top + 1.3) + 0.45))
        self.axis.set_title(f"{graph.cell}, unrolled over {graph.steps} steps", size=15)
        shared = "one name, one set of weights: " + "; ".join(
            f"{_shown(name)} {graph.how_often(name)}" for name in graph.weights
        )
        if len(graph.weights) <= 4:
            self.axis.text(min(places) - 0.5, -0.8, shared, size=11, color=self.ink, parse_math=True)

    def way_back(self) -> None:
        """The gradient of the last loss along the first layer's states, with its size at each, or that it is cut."""
        T = self.graph.steps
        for k in range(T - 1):
            here, there = Node("state", T - k), Node("state", T - k - 1)
            kept = bool(self.graph.kept[T - 1, k + 1])
            size = "" if self.graph.sizes is None or not kept else f"{float(self.graph.sizes[T - 1, k + 1]):.2g}"
            words = size if kept else "cut"
            gid = f"back-{T}-{k + 1}-{'kept' if kept else 'cut'}"
            look: dict[str, Any] = {"ls": "-" if kept else ":", "alpha": 1.0 if kept else 0.6}
            self.line(self.place(here), self.place(there), COLOURS[1], words, gid, bend=-0.6, **look)

    def rolled(self) -> None:
        parts = _parts(self.graph)
        ends: dict[Node, tuple[float, float]] = {}
        for k, part in enumerate(parts):
            ends |= self.rolled_part(part, APART * k)
        for arrow in self.graph.arrows:  # what the encoder hands over, after its last step
            if arrow.start.part != arrow.end.part:
                own = [node for node in ends if node.kind == "state"]
                first, last = (
                    next(node for node in own if (node.part, node.layer) == (each.part, each.layer))
                    for each in (arrow.start, arrow.end)
                )
                self.line(ends[first], ends[last], self.ink, "at the end", bend=-0.25)
        self.axis.set(xlim=(-1.0, 1.9 + APART * (len(parts) - 1)), ylim=(-0.95, UP * (self.top + 1.3) + 0.45))
        self.axis.set_title("rolled", size=15)

    def rolled_part(self, part: str, at: float) -> dict[Node, tuple[float, float]]:
        """One step with its loops; where its nodes stand."""
        graph = self.graph
        own = [node for node in graph.nodes if node.part == part]
        t = max(node.step for node in own if node.kind == "state" and (part or node.step <= graph.steps))
        shift = self.place(Node("state", t, part=part))[0] - at
        base = {node: (self.place(node)[0] - shift, self.place(node)[1]) for node in own if node.step == t}
        for node, where in base.items():
            self.disk(node, where, "t")
        loops = {}
        for arrow in graph.arrows:
            if arrow.start in base and arrow.end in base:
                colour, skip = (
                    SHARED.get(arrow.weights[:1], self.ink),
                    not arrow.weights and arrow.start.kind == "state",
                )
                ends = base[arrow.start], base[arrow.end]
                look = {"bend": 0.45 if skip else 0.0, "along": self.along(arrow), "ls": "--" if skip else "-"}
                self.line(*ends, colour, _shown(arrow.weights), **look)  # type: ignore[arg-type]
            elif arrow.end in base and arrow.end.kind == "state" and arrow.delay:
                loops[arrow.end, arrow.weights, arrow.delay] = arrow
        for (node, weights, delay), arrow in loops.items():
            fed = arrow.kind == "fed"
            top = base.get(Node(arrow.start.kind, t, part=part)) if fed else None
            self.loop(base[node], weights, delay, top)
        return base

    def loop(self, at: tuple[float, float], weights: str, delay: int, top: tuple[float, float] | None) -> None:
        """From a state, or from what is fed (`top`), back to the state."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        colour, (x, y) = SHARED.get(weights[:1], self.ink), at
        back = "" if delay == 1 else f"\n−{delay} steps"
        if top is not None:
            self.line(top, at, colour, _shown(weights) + " −1", bend=-0.6, ls="--")
            return
        wide = 0.28 + 0.09 * (len(self.graph.states) - 1)
        out = 1.0 + 0.5 * (delay > 1)
        ends = (x + wide, y + 0.13), (x + wide, y - 0.13)
        look: dict[str, Any] = {"color": colour, "arrowstyle": "-|>", "mutation_scale": 13, "lw": 1.6, "zorder": 5}
        away = x + wide + 0.75 * out
        curve = Path([ends[0], (away, y + 0.6 * out), (away, y - 0.6 * out), ends[1]], [1, 4, 4, 4])
        self.axis.add_patch(FancyArrowPatch(path=curve, **look))
        words: dict[str, Any] = {"size": 11, "ha": "left", "va": "center", "color": self.ink, "parse_math": True}
        self.axis.text(x + wide + 0.62 * out, y, _shown(weights) + back, **words)


def _letter(name: str) -> str:
    return name if len(name) == 1 else rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}"


def _shown(weights: str) -> str:
    if not weights:
        return ""
    base, _, which = weights.partition("_")
    letter = rf"{base[0]}'" if base.endswith("′") else base
    return f"${letter}_{{\\mathrm{{{which}}}}}$" if which else f"${letter}$"


def paint_pairs(axis: Any, kept: Any, title: str, sizes: Any = None) -> None:
    """A square for each pair: t upwards, k to the right; a cut one is pale and crossed out."""
    from matplotlib.patches import Rectangle

    steps, ink = len(kept), inks(axis)[1]
    room = steps <= 12
    for t in range(steps):
        for k in range(t + 1):
            is_kept = bool(kept[t, k])
            look: dict[str, Any] = {
                "fc": COLOURS[2] if is_kept else COLOURS[7],
                "alpha": 0.55 if is_kept else CUT,
                "ec": ink,
                "lw": 0.8,
            }
            square = Rectangle((k - 0.5, t + 0.5), 1, 1, **look)
            square.set_gid(f"pair-{t + 1}-{k}-{'kept' if is_kept else 'cut'}")
            axis.add_patch(square)
            if not is_kept and room:
                axis.text(k, t + 1, "×", ha="center", va="center", size=11, color=ink, alpha=0.6)
            elif sizes is not None and room:
                axis.text(k, t + 1, f"{sizes[t, k]:.2g}", ha="center", va="center", size=10, color=ink)
    axis.set(xlim=(-0.6, steps - 0.4), ylim=(0.4, steps + 0.6), xlabel="k, steps back", ylabel="t, the loss")
    every = range(0, steps, max(1, steps // 12))
    axis.set_xticks(list(every))
    axis.set_yticks([t + 1 for t in every])
    axis.set_title(title, size=13)


@painter(Pairs, (6.5, 6))
def paint_kept(axis: Any, found: Pairs) -> None:
    paint_pairs(axis, found.kept.numpy(), str(found))
    axis.set_aspect("equal")


@painter(Truncations, lambda found: (5.2 * len(found.forms), 5.6))
def paint_truncations(axis: Any, found: Truncations) -> None:
    """Side by side."""
    figure = axis.figure
    axis.remove()
    for each, own in zip(found.forms, figure.subplots(1, len(found.forms), squeeze=False)[0], strict=True):
        paint_pairs(own, each.kept.numpy(), f"{each.truncation}: {100 * each.share:.0f} %")
        own.set_aspect("equal")


@painter(Wiring, (9, 8))
def paint_wiring(axis: Any, wiring: Wiring) -> None:
    """Inputs below, units in the middle, outputs on top; each wire as thick as its weight, blue where it is negative."""
    from matplotlib.patches import Circle, FancyArrowPatch

    ink = inks(axis)[1]
    widest = max(wiring.sizes)
    places = [[((k + 0.5) * widest / size, 2.2 * row) for k in range(size)] for row, size in enumerate(wiring.sizes)]

    def wires(name: str, below: Any, above: Any, matrix: Any) -> None:
        most = float(matrix.abs().max()) or 1.0
        for j, a in enumerate(below):
            for i, b in enumerate(above):
                w = float(matrix[i, j])
                look: dict[str, Any] = {
                    "color": COLOURS[1] if w > 0 else COLOURS[0],
                    "lw": 0.4 + 2.2 * abs(w) / most,
                    "alpha": 0.9,
                }
                if name == "U":
                    bend = 0.45 if i >= j else -0.45
                    ends = (
                        ((a[0], a[1] + 0.12), (b[0], b[1] + 0.12))
                        if i != j
                        else ((a[0] - 0.14, a[1] + 0.1), (b[0] + 0.14, b[1] + 0.1))
                    )
                    style = f"arc3,rad={bend if i != j else -2.2}"
                    line: Any = FancyArrowPatch(
                        *ends, connectionstyle=style, arrowstyle="-|>", mutation_scale=8, zorder=1, **look
                    )
                    line.set_gid(f"wire-{name}-{i}-{j}")
                    axis.add_patch(line)
                else:
                    (drawn,) = axis.plot([a[0], b[0]], [a[1], b[1]], zorder=1, **look)
                    drawn.set_gid(f"wire-{name}-{i}-{j}")

    if wiring.inputs is not None and wiring.recurrent is not None and wiring.outputs is not None:
        wires("W", places[0], places[1], wiring.inputs)
        wires("U", places[1], places[1], wiring.recurrent)
        wires("V", places[1], places[2], wiring.outputs)
    for row, (kind, letter) in enumerate((("input", "x"), ("state", "h"), ("output", r"\hat{y}"))):
        for k, at in enumerate(places[row]):
            disk = Circle(at, 0.22, fc=FILLS[kind], ec=ink, lw=1.2, zorder=4)
            disk.set_gid(f"unit-{kind}-{k}")
            axis.add_patch(disk)
            axis.text(
                *at,
                f"${letter}_{{{k + 1}}}$",
                ha="center",
                va="center",
                size=12,
                color="#111111",
                zorder=5,
                parse_math=True,
            )
    axis.set(xlim=(-0.3, widest + 0.3), ylim=(-0.6, 5.0), aspect="equal")
    axis.axis("off")
    signs = "" if wiring.inputs is None else "\norange: positive, blue: negative; the thicker, the larger"
    axis.set_title(f"{wiring}{signs}", size=13)
