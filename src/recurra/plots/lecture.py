"""Pictures for learning: states as vectors, triggers that add to them, and gradients over depth."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.lecture.residuals import DepthGradients
from recurra.lecture.state_vectors import StateVectors, VectorSum
from recurra.plots.figure import COLOURS, DASHES, inks, painter


@painter(StateVectors, (12, 8))
def paint_state_vectors(axis: Any, found: StateVectors) -> None:
    """A row for each state and each trigger, a column for each variable; what is not zero is filled."""
    names = [*found.states, *(f"trigger {name}" for name in found.triggers)]
    values = np.array([*found.states.values(), *found.triggers.values()])
    count, ink = len(found.states), inks(axis)[1]
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            look = {"fc": COLOURS[0 if row < count else 1] if value else "none", "alpha": 0.75 if value else 1.0}
            cell = axis.add_patch(_square(column, row, ink, **look))
            cell.set_gid(f"cell-{row}-{column}-{value}")
            axis.text(column, row, str(value), ha="center", va="center", color=ink, size=13)
    axis.axhline(count - 0.5, color=ink, lw=2)
    axis.set(xlim=(-0.5, len(found.variables) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axis.set_xticks(range(len(found.variables)), [name.replace(" ", "\n") for name in found.variables], size=12)
    axis.set_yticks(range(len(names)), names)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)


def _square(column: int, row: int, ink: Any, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, ec=ink, lw=0.5, **look)


@painter(VectorSum, (9.5, 8.5))
def paint_vector_sum(axis: Any, found: VectorSum) -> None:
    """States as blue arrows from the origin, triggers as red ones from the tip of a state to that of the next."""
    from matplotlib.patheffects import withStroke

    from recurra.data.machine import VARIABLES

    figure, (paper, ink) = axis.figure, inks(axis)
    axis.remove()
    solid = figure.add_subplot(projection="3d")
    places = np.array([[state[VARIABLES.index(name)] for name in found.axes] for state in found.states], dtype=float)
    for place in places:
        if place.any():
            solid.quiver(0, 0, 0, *place, color=COLOURS[0], lw=2.5, arrow_length_ratio=0.08)
    top = np.maximum(places.max(0), 1) * 1.1
    solid.set(xlim=(0, top[0]), ylim=(0, top[1]), zlim=(0, top[2]))
    solid.set(xlabel=found.axes[0], ylabel=found.axes[1], zlabel=found.axes[2])
    for side, high in ((solid.xaxis, top[0]), (solid.yaxis, top[1]), (solid.zaxis, top[2])):
        side.set_pane_color((0, 0, 0, 0))
        side.set_ticks(range(int(high) + 1))
    solid.view_init(elev=22, azim=-50)
    turned = solid.get_proj()

    def seen(place: Any) -> Any:
        """Where a place is on the paper, as names must stand beside arrows there."""
        x, y, _, scale = turned @ (*place, 1)
        return np.array([x, y]) / scale

    climbs = set()
    for k, trigger in enumerate(found.triggers):
        step = places[k + 1] - places[k]
        if step.any():
            solid.quiver(*places[k], *step, color=COLOURS[1], lw=2.2, ls="--", arrow_length_ratio=0.12)
            along = seen(places[k + 1]) - seen(places[k])
            right, up = along / np.hypot(*along)
            if right > 0.2 and up > 0:
                climbs.add(tuple(places[k]))
            # on the right of who walks along the arrow
            look = {"ha": "left" if up > 0 else "right", "va": "center" if abs(up) > 0.9 else "top"}
            words = solid.annotate(
                f"{k + 1} {trigger}",
                seen(places[k] + 0.4 * step),
                xytext=(8 * up, -8 * right),
                textcoords="offset points",
                color=COLOURS[1],
                size=12,
                **look,
            )
            words.set_path_effects([withStroke(linewidth=3, foreground=paper)])
    together: dict[tuple[float, ...], list[str]] = {}
    for name, place in zip(found.names, places, strict=True):
        group = together.setdefault(tuple(place), [])
        if name not in group:
            group.append(name)
    for place, names in together.items():
        solid.scatter(*place, s=40, color=COLOURS[0])
        side = {"ha": "left" if any(place) else "right", "va": "top" if place in climbs and any(place) else "bottom"}
        solid.text(*place, f" {', '.join(names)} ", color=ink, size=13, fontweight="bold", **side)
    solid.set_title("State + trigger = next state, in three of eight dimensions", size=14)


@painter(DepthGradients, (9, 5.5))
def paint_depth(axis: Any, found: DepthGradients) -> None:
    """The gradient at each layer over that at the last one; of recurrent layers thin what comes straight down the layers."""
    words = {"none": "no skip", "outside": "skip, head outside: y + φ(W y)", "inside": "skip, head inside: φ(y + W y)"}
    if found.straight:
        words = {"none": "no skip, all steps", "outside": "skip, all steps"}
    for k, (form, norms) in enumerate(found.norms.items()):
        look = {"color": COLOURS[k], "ls": DASHES[k]}
        _depth_line(axis, norms, f"depth-{form}", lw=2.5, label=words[form], **look)
        if found.straight:
            label = words[form].replace("all steps", "the step of the loss alone")
            _depth_line(axis, found.straight[form], f"straight-{form}", lw=1.2, marker="o", ms=4, label=label, **look)
    axis.set(xlabel="layer (0: the input)", ylabel="log₁₀ ‖∂L/∂y(l)‖ over the last layer's", title=found.about)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.6)
    axis.legend()


def _depth_line(axis: Any, norms: Any, name: str, **look: Any) -> None:
    shares = (norms / norms[-1]).numpy()
    (line,) = axis.plot(range(len(shares)), np.log10(np.maximum(shares, 1e-300)), **look)
    line.set_gid(name)
