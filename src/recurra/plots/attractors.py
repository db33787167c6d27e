"""Named attractors, and the paths that the state takes between them as triggers fire."""

from __future__ import annotations

from typing import Any

from recurra.analysis.automata.attractors import Automaton
from recurra.analysis.fields import Plane
from recurra.plots.figure import COLOURS, DASHES, inks, painter
from recurra.plots.fixed_points import plane_of
from recurra.plots.labels import Room

ALONG = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8)
"""Where on its path a trigger's name may stand."""


@painter(Automaton, (13, 10.5))
def paint_attractors(
    axis: Any,
    found: Automaton,
    *,
    plane: Plane | None = None,
    title: str = "Attractors, and the transitions between them",
) -> None:
    """`plane`: otherwise that in which the attractors differ most. Triggers are coloured by the first word of their names."""
    plane = plane or plane_of(found.states)
    places = plane.project(found.states).numpy()
    triggers = [[found.triggers[k] for k in each.triggers] for each in found.transitions]
    kinds = list(dict.fromkeys(names[0].split()[0] for names in triggers))
    paths = [plane.project(each.path).numpy() for each in found.transitions]
    numbers = [kinds.index(names[0].split()[0]) for names in triggers]
    for place, (k, path) in enumerate(zip(numbers, paths, strict=True)):
        colour, label = COLOURS[k % 6], None if k in numbers[:place] else kinds[k]
        axis.plot(path[:, 0], path[:, 1], color=colour, ls=DASHES[k % 4], lw=1.6, alpha=0.85, label=label)
        axis.annotate("", path[1], xytext=path[0], arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6})
    axis.scatter(*places.T, s=150, color=COLOURS[0], edgecolor="white", zorder=5)
    axis.margins(0.1)
    axis.set(xlabel=plane.names[0], ylabel=plane.names[1], title=title)
    if kinds:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=6, frameon=False)
    room = Room(axis)
    room.keep_free(places)
    for name, place in zip(found.names, places, strict=True):
        room.write(name, [place], shrink=8, fontsize=14, fontweight="bold")
    for names, path, k in zip(triggers, paths, numbers, strict=True):
        if room.length(path) < 3 * room.width(shorten(names), fontsize=9.5):
            continue  # a short way: its colour says which kind of trigger, its end which one
        box = {"boxstyle": "round,pad=0.15", "fc": inks(axis)[0], "ec": COLOURS[k % 6], "lw": 0.8}
        room.write(shorten(names), [path[0] + f * (path[1] - path[0]) for f in ALONG], fontsize=9.5, bbox=box)


def shorten(names: list[str]) -> str:
    """`Program 1, 2` for Program 1 and Program 2."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(" ")
        kinds.setdefault(kind, []).append(rest)
    return "; ".join(f"{kind} {', '.join(rests)}".strip() for kind, rests in kinds.items())
