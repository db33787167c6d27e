"""A recursive network over a tree: what nodes read at the bottom, states above, the root's output and loss on top."""

from __future__ import annotations

from typing import Any

from recurra.lecture.tree_graph import TreeGraph
from recurra.plots.figure import COLOURS, inks, painter
from recurra.plots.unroll import FILLS

EDGES = (COLOURS[2], COLOURS[3], COLOURS[1], COLOURS[5], COLOURS[7])
"""By position of a child: arrows that share weights share a colour."""
UP, RADIUS, INCH = 1.25, 0.26, 0.85
"""The distance of levels, the radius of a disk, and inches for each unit of the drawing."""
LONGEST = 14


def _word(token: str) -> tuple[str, float]:
    """A token as it is written, and half the width of its box."""
    shown = token if len(token) <= LONGEST else token[: LONGEST - 1] + "…"
    return shown, 0.14 + 0.04 * len(shown)


def _spread(graph: TreeGraph) -> float:
    """The distance of leaves: words and labels must not meet."""
    widest = max((_word(token)[1] for token in graph.tokens if token is not None), default=0.0)
    return max(1.6 if any(graph.labels) else 1.0, 2 * widest + 0.3)


def _ends(graph: TreeGraph) -> tuple[float, float, float, float]:
    """Left, right, bottom and top."""
    right = max(_spread(graph) * (len(graph.leaves) - 1) + 0.8, _spread(graph) * (len(graph.leaves) - 1) / 2 + 2.0)
    return -0.8, right, -0.95 if graph.sizes is not None else -0.5, UP * (graph.height + 2) + 0.45


def _size(graph: TreeGraph) -> tuple[float, float]:
    left, right, low, high = _ends(graph)
    return max(8.0, INCH * (right - left)), INCH * (high - low) + 0.7


@painter(TreeGraph, _size)
def paint_tree_graph(axis: Any, graph: TreeGraph) -> None:
    """Arrows that share weights share a colour and a name; with gradients, a word is the fuller the larger its own is."""
    from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

    paper, ink = inks(axis)
    across = {leaf: _spread(graph) * k for k, leaf in enumerate(graph.leaves)}
    for node in range(len(graph.parents) - 1, -1, -1):  # children come after their parents
        if node not in across:
            own = [across[child] for child, parent in enumerate(graph.parents) if parent == node]
            across[node] = sum(own) / len(own)
    at = {node: (across[node], UP * (graph.heights[node] + 1)) for node in across}
    names = list(dict.fromkeys(sorted(graph.weights[1:])))
    colours = {name: EDGES[k % len(EDGES)] for k, name in enumerate(names)} | {"W": COLOURS[0], "V": COLOURS[4]}
    shapes: dict[Any, Any] = {}

    def disk(key: Any, place: tuple[float, float], words: str, kind: str) -> None:
        shapes[key] = axis.add_patch(Circle(place, RADIUS, fc=FILLS[kind], ec=ink, lw=1.2, zorder=4))
        shapes[key].set_gid(f"node-{key}")
        axis.text(*place, words, ha="center", va="center", size=13, color="#111111", zorder=5, parse_math=True)

    def arrow(a: str, b: str, start: Any, end: Any, weights: str, gid: str) -> None:
        ends = {"patchA": shapes[a], "patchB": shapes[b], "shrinkA": 1, "shrinkB": 1}
        look = {"color": colours.get(weights, ink), "lw": 1.8, "arrowstyle": "-|>", "mutation_scale": 14}
        axis.add_patch(FancyArrowPatch(start, end, zorder=3, gid=gid, **ends, **look))
        middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        box = {"fc": paper, "ec": "none", "pad": 0.8, "alpha": 0.9}
        if weights:
            words = f"${weights.replace('_', '_{')}{'}' if '_' in weights else ''}$"
            axis.text(
                *middle, words, ha="center", va="center", size=11, color=ink, bbox=box, zorder=3.5, parse_math=True
            )

    most = 1.0 if graph.sizes is None else float(graph.sizes.max()) or 1.0
    inner = set(graph.parents)
    for node, place in at.items():
        disk(f"h-{node}", place, "$h$", "state")
        if graph.labels[node] is not None:
            axis.text(place[0] + 0.34, place[1] + 0.12, f"y = {graph.labels[node]}", size=11, color=ink, zorder=6)
        token = graph.tokens[node]
        if token is None:
            continue
        below = (place[0], 0.0) if node not in inner else (place[0] - 0.75, place[1] + 0.35)
        full = 1.0 if graph.sizes is None else 0.1 + 0.9 * min(1.0, float(graph.sizes[node]) / most)
        shown, half = _word(token)
        corner, look = (below[0] - half, below[1] - 0.14), {"fc": (FILLS["input"], full), "ec": ink, "lw": 1.2}
        box = FancyBboxPatch(corner, 2 * half, 0.28, "round,pad=0.06", zorder=4, gid=f"node-x-{node}", **look)
        shapes[f"x-{node}"] = axis.add_patch(box)
        word_ink = "#111111" if full > 0.5 else ink
        axis.text(*below, shown, ha="center", va="center", size=11, color=word_ink, zorder=5)
        if graph.sizes is not None:
            axis.text(below[0], below[1] - 0.42, f"{float(graph.sizes[node]):.2g}", ha="center", size=11, color=ink)
        arrow(f"x-{node}", f"h-{node}", below, place, "W", f"arrow-W-{node}")
    for node, parent in enumerate(graph.parents):
        if node:
            arrow(f"h-{node}", f"h-{parent}", at[node], at[parent], graph.weights[node], f"arrow-{node}-{parent}")
    root = at[0]
    output, loss = (root[0], root[1] + UP), (root[0] + 1.2, root[1] + UP)
    disk("output", output, r"$\hat{y}$", "output")
    disk("loss", loss, "$L$", "loss")
    arrow("h-0", "output", root, output, "V", "arrow-V")
    arrow("output", "loss", output, loss, "", "arrow-loss")
    left, right, low, high = _ends(graph)
    axis.set(xlim=(left, max(right, loss[0] + 0.4)), ylim=(low, high), aspect="equal")
    axis.axis("off")
    title = f"a recursive network: {len(graph.leaves)} words, {graph.height} steps to the root"
    axis.set_title(title + ("" if graph.sizes is None else "\nbelow each word: ‖∂h(root)/∂x‖"), size=13)
