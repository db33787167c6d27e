"""An automaton as circles and arrows, as textbooks draw it: states on a ring, symbols written on curved arrows."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

from recurra.plots.attractors import shorten
from recurra.plots.automaton import COLOURS, NOWHERE, Automaton, edges
from recurra.plots.figure import inks

MOST = 24
"""States that a ring has room for."""


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
    side = max(7.0, 0.85 * count + 2)
    letters = 10 * max(1.0, side / 9)
    axis.figure.set_size_inches(side, side)
    reach = max(1.6, 0.5 * count)
    places = [(reach * x, reach * y) for x, y in ring(count)]
    radius = min(0.55, 1.2 * math.pi * reach / max(count, 3) / 2.4)
    box = {"fc": paper, "ec": "none", "pad": 0.6, "alpha": 0.88}
    disks = []
    for state, (at, name) in enumerate(zip(places, machine.state_names(), strict=True)):
        disk = Circle(at, radius, fc=paper, ec=COLOURS[state % len(COLOURS)], lw=2, zorder=4)
        disk.set_gid(f"state-{state}")
        axis.add_patch(disk)
        disks.append(disk)
        if state == 0:
            axis.add_patch(Circle(at, 0.86 * radius, fc="none", ec=COLOURS[0], lw=1.2, zorder=5))
        axis.text(
            *at,
            fill(name, 9, break_long_words=False),
            ha="center",
            va="center",
            size=letters,
            fontweight="bold",
            zorder=6,
            color=ink,
        )
    for edge in edges(machine):
        if edge.to < 0 and edge.to != NOWHERE:
            continue
        colour, (x, y) = COLOURS[max(edge.to, 0) % len(COLOURS)], places[edge.start]
        away = math.hypot(x, y) or 1.0
        out = (x / away, y / away) if count > 1 else (0.0, 1.0)
        words = fill(shorten(edge.label.split(", ")), 18)
        if edge.to in (edge.start, NOWHERE):
            spot = x + out[0] * radius * 2.5, y + out[1] * radius * 2.5
            if edge.to == edge.start:
                across = (-out[1] * radius * 0.9, out[0] * radius * 0.9)
                begin = x + (out[0] * 0.9 + 0.0) * radius + across[0] / 3, y + out[1] * 0.9 * radius + across[1] / 3
                end = x + out[0] * 0.9 * radius - across[0] / 3, y + out[1] * 0.9 * radius - across[1] / 3
                far = [(spot[0] + sign * across[0], spot[1] + sign * across[1]) for sign in (1, -1)]
                loop = FancyArrowPatch(
                    path=Path([begin, far[0], far[1], end], [1, 4, 4, 4]),
                    arrowstyle="-|>",
                    mutation_scale=13,
                    color=colour,
                )
                loop.set_gid(f"edge-{edge.start}-{edge.to}")
                axis.add_patch(loop)
            axis.text(*spot, words, ha="center", va="center", size=0.8 * letters, bbox=box, zorder=7, color=ink)
            continue
        bend = 0.18
        arrow = FancyArrowPatch(
            places[edge.start],
            places[edge.to],
            connectionstyle=f"arc3,rad={bend}",
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
        (x0, y0), (x1, y1) = places[edge.start], places[edge.to]
        # nearer to the start: arrows that end at one state would have their words on top of each other there
        near = 0.38
        spot = x0 + near * (x1 - x0) + 0.9 * bend / 2 * (y1 - y0), y0 + near * (y1 - y0) - 0.9 * bend / 2 * (x1 - x0)
        axis.text(*spot, words, ha="center", va="center", size=0.8 * letters, bbox=box, zorder=7, color=ink)
    room = reach + 3.4 * radius
    axis.set(xlim=(-room, room), ylim=(-room, room), aspect="equal")
    axis.axis("off")
