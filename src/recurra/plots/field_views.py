"""Fields in other ways: the input's, the state's and their resultant; every trigger; through training; a state that moves."""

from __future__ import annotations

from math import ceil
from typing import Any

from torch import Tensor

from recurra.analysis.field_views import FieldPanel, Formation, SplitField, Walk
from recurra.analysis.fields import Plane, VectorField
from recurra.plots.field import extent, paint_streams
from recurra.plots.figure import COLOURS, inks, painter
from recurra.plots.labels import Room


def _panes(axis: Any, count: int, columns: int) -> list[Any]:
    """As many axes as there are pictures, in place of one."""
    figure = axis.figure
    axis.remove()
    rows = ceil(count / columns)
    made = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flatten().tolist()
    for spare in made[count:]:
        spare.axis("off")
    return list(made[:count])


def _dots(axis: Any, plane: Plane, states: Tensor, colour: str = COLOURS[1], size: float = 80) -> None:
    if len(states):
        axis.scatter(*plane.project(states).T.numpy(), s=size, color=colour, edgecolor="white", linewidth=0.8, zorder=5)


@painter(SplitField, (16, 5.8))
def paint_split(axis: Any, parts: SplitField) -> None:
    """Three panels: what the input adds, what the state adds, and the sum of both. Each has its own scale, written above it."""
    width = float(parts.places[-1, 0] - parts.places[0, 0])
    panes = _panes(axis, 3, 3)
    names = ("field of the input: W x + b", "field of the state: U h", f"their resultant, in {parts.name}")
    for k, (own, values) in enumerate(zip(panes, (parts.input, parts.state, parts.resultant), strict=True)):
        longest = float(values.norm(dim=1).max()) or 1.0
        look = {"angles": "xy", "scale_units": "xy", "scale": longest * parts.size / width / 1.6, "width": 0.005}
        arrows = own.quiver(*parts.places.T.numpy(), *values.T.numpy(), color=COLOURS[(0, 2, 1)[k]], **look)
        arrows.set_gid(f"field-{('input', 'state', 'resultant')[k]}")
        own.set_title(f"{names[k]}\nlongest arrow {longest:.2g}", size=13)
        own.set(xlabel=parts.plane.names[0], xlim=extent(parts)[:2], ylim=extent(parts)[2:])
    panes[0].set_ylabel(parts.plane.names[1])


def _small_field(axis: Any, field: VectorField, title: str) -> None:
    paint_streams(axis, field, density=0.8)
    axis.set(xlim=extent(field)[:2], ylim=extent(field)[2:], xticks=[], yticks=[])
    axis.set_title(title, size=14)


@painter(FieldPanel, lambda panel: (15, 0.6 + 3.9 * ceil(len(panel.names) / 4)))
def paint_panel(axis: Any, panel: FieldPanel) -> None:
    """A small picture for each input, all in one plane; dots are the marked states."""
    for own, name, field in zip(_panes(axis, len(panel.names), 4), panel.names, panel.fields, strict=True):
        _small_field(own, field, name)
        _dots(own, field.plane, panel.marked)


@painter(Formation, lambda found: (15, 0.6 + 3.9 * ceil(len(found.steps) / 4)))
def paint_formation(axis: Any, found: Formation, *, frame: int | None = None) -> None:
    """A strip of pictures, one for each step; `frame`: only that one."""
    chosen = range(len(found.steps)) if frame is None else [frame]
    for own, k in zip(_panes(axis, len(chosen), 4 if frame is None else 1), chosen, strict=True):
        count = found.attractors[k]
        _small_field(own, found.fields[k], f"step {found.steps[k]:,}: {count} attractor{'s' if count != 1 else ''}")
        for point in found.points[k].attractors:
            _dots(own, found.fields[k].plane, point.state[None])


@painter(Walk, (11, 9))
def paint_walk(axis: Any, walk: Walk, *, frame: int | None = None) -> None:
    """The way of the state, an arrow for each input with its name; `frame`: only so many steps, over the field of the last."""
    from matplotlib.patches import FancyArrowPatch

    shown = len(walk.inputs) if frame is None else frame
    if frame:
        paint_streams(axis, walk.fields[walk.inputs[frame - 1]], density=0.9)
    some = next(iter(walk.fields.values()))
    seen = walk.plane.project(walk.states).numpy()
    kinds = list(dict.fromkeys(walk.inputs))
    for k in range(shown):
        colour = COLOURS[kinds.index(walk.inputs[k]) % 6]
        arrow = FancyArrowPatch(
            seen[k],
            seen[k + 1],
            color=colour,
            arrowstyle="-|>",
            mutation_scale=18,
            lw=2,
            zorder=4,
            shrinkA=3,
            shrinkB=3,
        )
        arrow.set_gid(f"step-{k + 1}")
        axis.add_patch(arrow)
    if frame is None and len(set(walk.inputs)) < len(walk.inputs):
        held = [name for k, name in enumerate(walk.inputs[1:]) if name == walk.inputs[k]]
        for name in dict.fromkeys(held):  # its arrows are too many to be named one by one
            axis.plot([], [], color=COLOURS[kinds.index(name) % 6], lw=2, label=name)
        if held:
            axis.legend(loc="lower right")
    _dots(axis, walk.plane, walk.marked, COLOURS[7], 90)
    axis.scatter(*seen[shown], s=130, color=COLOURS[1], edgecolor=inks(axis)[1], zorder=6)
    now = f"{walk.inputs[shown - 1]} → {walk.predictions[shown]}" if shown else f"start: {walk.predictions[0]}"
    title = "A state that moves under triggers" if frame is None else f"step {shown}: {now}"
    axis.set(xlim=extent(some)[:2], ylim=extent(some)[2:], xlabel=walk.plane.names[0], ylabel=walk.plane.names[1])
    axis.set_title(title)
    room = Room(axis)
    room.keep_free([*seen[: shown + 1], *walk.plane.project(walk.marked).numpy()])
    for name, place in zip(walk.names, walk.plane.project(walk.marked).numpy(), strict=False):
        room.write(name, [place], shrink=6, fontsize=12, fontweight="bold")
    if frame is None:
        for k, name in enumerate(walk.inputs):
            if name in walk.inputs[max(0, k - 1) : k] or name in walk.inputs[k + 1 : k + 2]:
                continue  # held for some steps: the field of rest, which needs no name
            room.write(f"{k + 1} {name}", [seen[k] + f * (seen[k + 1] - seen[k]) for f in (0.5, 0.3, 0.7)], fontsize=11)
