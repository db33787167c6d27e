"""An automaton as circles and arrows, as textbooks draw it: states on a ring, symbols written on curved arrows."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

import numpy as np

from recurra.plots.attractors import shorten
from recurra.plots.automaton import COLOURS, NOWHERE, Automaton, edges
from recurra.plots.figure import inks
from recurra.plots.labels import Room

MOST = 24
"""States that a ring has room for."""
BEND, ALONG = 0.18, (0.38, 0.45, 0.5, 0.32, 0.58, 0.66, 0.26)
"""How curved arrows are, and where on them their symbols may stand: arrows that end at one state come close there."""


def ring(count: int) -> list[tuple[float, float]]:
    """Places on a circle, the first at the left, clockwise."""
    turns = (math.pi - 2 * math.pi * k / count for k in range(count))
    return [(math.cos(turn), math.sin(turn)) for turn in turns] if count > 1 else [(0.0, 0.0)]


def paint_circles(axis: Any, machine: Automaton) -> None:
    """Each state a circle, doubled where it is the first; each edge an arrow with its symbols; loops outside the ring."""
    from matplotlib.patches import Circle, FancyArrowPatch
    from matplotlib.path import Path

    paper, ink = inks(axis)
    count = machine.size
    side = max(7.0, 0.95 * count + 2)
    axis.figure.set_size_inches(side, side)
    reach = max(1.6, 0.5 * count)
    places = [(reach * x, reach * y) for x, y in ring(count)]
    gap = 2 * reach * math.sin(math.pi / count) if count > 1 else 2.4
    radius = min(0.9, 0.33 * gap)
    room = reach + 3.1 * radius
    names = [fill(name, 9, break_long_words=False) for name in machine.state_names()]
    longest = max(len(line) for name in names for line in name.split("\n"))
    # a bold letter is about 0.68 of its size wide; the longest word must fit into its circle
    letters = min(14.0, 1.55 * radius * 72 * side / (2 * room) / (0.68 * max(longest, 4)))
    disks = []
    for state, (at, name) in enumerate(zip(places, names, strict=True)):
        disk = Circle(at, radius, fc=paper, ec=COLOURS[state % len(COLOURS)], lw=2, zorder=4)
        disk.set_gid(f"state-{state}")
        axis.add_patch(disk)
        disks.append(disk)
        if state == 0:
            axis.add_patch(Circle(at, 0.9 * radius, fc="none", ec=COLOURS[0], lw=1.2, zorder=5))
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold", "zorder": 6, "color": ink}
        axis.text(*at, name, size=letters, **look)
    words: list[tuple[str, str, list[Any]]] = []
    for edge in edges(machine):
        if edge.to < 0 and edge.to != NOWHERE:
            continue
        colour, (x, y) = COLOURS[max(edge.to, 0) % len(COLOURS)], places[edge.start]
        label = fill(shorten(edge.label.split(", ")), 18)
        if edge.to in (edge.start, NOWHERE):
            away = math.hypot(x, y) or 1.0
            out = (x / away, y / away) if count > 1 else (0.0, 1.0)
            if edge.to == edge.start:
                curve = _loop((x, y), out, radius)
                loop = FancyArrowPatch(
                    path=Path(curve, [1, 4, 4, 4]), arrowstyle="-|>", mutation_scale=13, color=colour
                )
                loop.set_gid(f"edge-{edge.start}-{edge.to}")
                axis.add_patch(loop)
            words.append((label, colour, [np.array([x + out[0] * radius * 2.25, y + out[1] * radius * 2.25])]))
            continue
        arrow = FancyArrowPatch(
            (x, y),
            places[edge.to],
            connectionstyle=f"arc3,rad={BEND}",
            arrowstyle="-|>",
            mutation_scale=14,
            color=colour,
            lw=1.5,
            patchA=disks[edge.start],
            patchB=disks[edge.to],
            shrinkA=1,
            shrinkB=1,
            zorder=2,
        )
        arrow.set_gid(f"edge-{edge.start}-{edge.to}")
        axis.add_patch(arrow)
        words.append((label, colour, [_on_arc((x, y), places[edge.to], along) for along in ALONG]))
    axis.set(xlim=(-room, room), ylim=(-room, room), aspect="equal")
    axis.axis("off")
    free = Room(axis)
    free.keep_free([np.array(place) for place in places], points=radius * 72 * side / (2 * room))
    for label, colour, anchors in words:
        # an edge in the arrow's colour: where arrows cross, it says whose symbols these are
        box = {"fc": paper, "ec": colour, "lw": 0.7, "boxstyle": "round,pad=0.15", "alpha": 0.9}
        free.write(label, anchors, fontsize=0.85 * letters, bbox=box, color=ink)


def _loop(at: tuple[float, float], out: tuple[float, float], radius: float) -> list[tuple[float, float]]:
    """A curve from a circle's outer side back to it."""
    across = -out[1] * radius, out[0] * radius
    near, far = 0.93 * radius, 2.35 * radius
    return [
        (at[0] + out[0] * reach + share * across[0], at[1] + out[1] * reach + share * across[1])
        for reach, share in ((near, 0.3), (far, 0.9), (far, -0.9), (near, -0.3))
    ]


def _on_arc(start: tuple[float, float], end: tuple[float, float], along: float) -> Any:
    """A place on the curved arrow between two states."""
    (x0, y0), (x1, y1) = start, end
    lift = 2 * along * (1 - along) * BEND  # a quadratic arc, whose middle stands half of its bend off the chord
    return np.array(
        [x0 + along * (x1 - x0) + lift * (y1 - y0), y0 + along * (y1 - y0) - lift * (x1 - x0)],
    )
