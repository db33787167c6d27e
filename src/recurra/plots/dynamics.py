"""Pictures of what the analysis found, for a lecture or a page: SVG and PNG, on a light and on a dark ground.

Colours are those of Okabe & Ito, which people with colour-blind eyes tell apart; lines differ in dash and points in form too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.fields import Basins, Plane, VectorField
from recurra.analysis.fixed_points import FixedPoint, FixedPoints
from recurra.analysis.gradients import GradientFlow, Spectrum
from recurra.errors import OptionError
from recurra.lecture.regions import PlaneRegions, Rectifier
from recurra.plots.labels import Room
from recurra.plots.picture import save_picture
from recurra.types import Float

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
AREAS = (*COLOURS[:7], "#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499", "#117733")
"""Colours of basins, which may be many: with those of Tol."""
DASHES = ("-", "--", "-.", ":")
MARKS = {"attractor": ("o", 110), "saddle": ("X", 90), "repeller": ("^", 100), "marginal": ("s", 80)}
ALONG = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8)
"""Where on its way a trigger's name may stand."""
ENDINGS = ("svg", "png")
GROUNDS = {"": ("white", "#222222", "#dddddd"), "-dark": ("#16181d", "#e8e8e8", "#3a3f47")}


def find_matplotlib() -> Any:
    try:
        import matplotlib as found
    except ImportError:
        raise OptionError("plots need matplotlib. Install it with pip install 'recurra[analysis]'.") from None
    found.use("Agg")
    return found


@contextmanager
def figures(
    file: Path, width: float = 9.0, height: float = 5.5, endings: Sequence[str] = ENDINGS
) -> Iterator[Iterator[tuple[Any, Any]]]:
    """The same drawing on both grounds: an axis to draw on for each, saved as SVG and PNG when it is done."""
    matplotlib = find_matplotlib()
    from matplotlib import pyplot

    made: list[tuple[Any, str]] = []

    def each() -> Iterator[tuple[Any, Any]]:
        for suffix, (ground, ink, faint) in GROUNDS.items():
            style = {
                "figure.facecolor": ground,
                "axes.facecolor": ground,
                "savefig.facecolor": ground,
                "text.color": ink,
                "axes.labelcolor": ink,
                "axes.edgecolor": faint,
                "xtick.color": ink,
                "ytick.color": ink,
                "grid.color": faint,
                "legend.facecolor": ground,
                "legend.edgecolor": faint,
                "font.size": 14,
                "axes.titlesize": 16,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "svg.hashsalt": "recurra",
            }
            with matplotlib.rc_context(style):
                figure, axis = pyplot.subplots(figsize=(width, height), layout="constrained")
                yield figure, axis
                for ending in endings:
                    save_picture(figure, file.with_name(f"{file.name}{suffix}.{ending}"))
                made.append((figure, suffix))

    yield each()
    for figure, _ in made:
        pyplot.close(figure)


def plot_gradients(flow: GradientFlow, file: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Log norms over the lag: of the product of Jacobians, and of the loss's gradient at each state."""
    with figures(file, endings=endings) as axes:
        for _, axis in axes:
            lags = np.array(flow.lags)
            axis.plot(lags, flow.state.numpy() / np.log(10), color=COLOURS[0], lw=3, label="‖∂s(t)/∂s(t−k)‖")
            for k, (name, logs) in enumerate(flow.loss.items()):
                values = np.where(np.isfinite(logs.numpy()), logs.numpy(), np.nan) / np.log(10)
                colour, dash = COLOURS[1 + k % 6], DASHES[1 + k % 3]
                axis.plot(lags, values, color=colour, ls=dash, lw=2, label=f"‖∂L(t)/∂{name}(t−k)‖")
            axis.axhline(0, lw=1, color=COLOURS[7])
            axis.set(xlabel="k, steps back", ylabel="log₁₀ of the norm", title=f"The gradient {flow.verdict}")
            for k, (name, logs) in enumerate(flow.carried.items()):
                label = f"what {name} carries over by itself"
                axis.plot(lags, logs.numpy() / np.log(10), color=COLOURS[5 - k % 2], ls=":", lw=2, label=label)
            axis.grid(alpha=0.6)
            axis.legend()


def plot_spectrum(found: dict[str, Spectrum], file: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Eigenvalues of recurrent matrices in the complex plane, with the unit circle."""
    with figures(file, 7.5, 7, endings) as axes:
        for _, axis in axes:
            turn = np.linspace(0, 2 * np.pi, 400)
            axis.plot(np.cos(turn), np.sin(turn), color=COLOURS[7], lw=1.5)
            for k, (name, one) in enumerate(found.items()):
                values = one.eigenvalues.numpy()
                axis.scatter(
                    values.real,
                    values.imag,
                    s=28,
                    alpha=0.8,
                    color=COLOURS[k % 7],
                    marker="ox^sDv"[k % 6],
                    label=f"{name}: radius {one.radius:.3g}",
                )
            axis.set(
                xlabel="real part", ylabel="imaginary part", title="Eigenvalues and the unit circle", aspect="equal"
            )
            axis.grid(alpha=0.6)
            axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))


def plot_field(
    field: VectorField,
    file: Path,
    *,
    points: FixedPoints | None = None,
    names: Sequence[str] = (),
    paths: Sequence[Tensor] = (),
    basins: Basins | None = None,
    title: str = "",
    endings: Sequence[str] = ENDINGS,
) -> None:
    """Arrows of one step over the plane, the speed as shade (or basins as colours), fixed points by kind, paths as lines.

    `names`: what the attractors are called, in the order of `points.attractors`.
    """
    low, high = field.places[0].numpy(), field.places[-1].numpy()
    extent = (low[0], high[0], low[1], high[1])
    with figures(file, 9, 8, endings) as axes:
        for figure, axis in axes:
            if basins is not None:
                _shade_basins(axis, basins, extent)
            else:
                speed = np.log10(field.speed.numpy().reshape(field.size, field.size) + 1e-12)
                shade = axis.imshow(speed, origin="lower", extent=extent, cmap="cividis", alpha=0.55, aspect="auto")
                figure.colorbar(shade, ax=axis, label="log₁₀ speed", shrink=0.8)
            a, b = (field.places[:, k].numpy().reshape(field.size, field.size) for k in range(2))
            u, v = (field.moves[:, k].numpy().reshape(field.size, field.size) for k in range(2))
            axis.streamplot(a, b, u, v, color=COLOURS[7], density=1.3, linewidth=0.9, arrowsize=1.1)
            for path in paths:
                seen = field.plane.project(path).numpy()
                axis.plot(seen[:, 0], seen[:, 1], color=COLOURS[1], lw=1.2, alpha=0.55)
            inside = _mark_points(axis, field.plane, points, extent) if points is not None else []
            axis.set(
                xlim=extent[:2], ylim=extent[2:], xlabel=field.plane.names[0], ylabel=field.plane.names[1], title=title
            )
            if points is not None:
                room = Room(figure, axis)
                room.keep_free(place for _, place in inside)
                called = {id(point): name for point, name in zip(points.attractors, names, strict=False)}
                for point, place in inside:
                    if called.get(id(point)):
                        room.write(called[id(point)], [place], shrink=6, fontsize=13, fontweight="bold")


def plot_regions(
    regions: PlaneRegions,
    network: Rectifier,
    file: Path,
    *,
    points: Tensor | None = None,
    labels: Tensor | None = None,
    classes: Sequence[str] = (),
    columns: Sequence[str] = ("x", "y"),
) -> None:
    """The regions of a window, shaded by how many units are on, the line on which the classes meet, and examples on top."""
    from matplotlib.collections import PolyCollection

    corners = np.concatenate(regions.polygons)
    (x0, y0), (x1, y1) = corners.min(0), corners.max(0)
    a, b = np.meshgrid(np.linspace(x0, x1, 300), np.linspace(y0, y1, 300))
    scores = network(np.stack([a.ravel(), b.ravel()], axis=1))
    ahead = [scores[:, k] - np.delete(scores, k, axis=1).max(1) for k in range(scores.shape[1])]
    with figures(file, 9, 8) as axes:
        for figure, axis in axes:
            ink = axis.xaxis.label.get_color()
            shade = PolyCollection(regions.polygons, cmap="cividis", alpha=0.5, edgecolor=ink, linewidth=0.4)
            shade.set_array(regions.patterns.sum(1))
            axis.add_collection(shade)
            figure.colorbar(shade, ax=axis, label="units that are on", shrink=0.8)
            for by in ahead[1:] if len(ahead) == 2 else ahead:
                if by.min() < 0 < by.max():
                    axis.contour(a, b, by.reshape(a.shape), levels=[0], colors=[ink], linewidths=2.5)
            for k, name in enumerate(classes if points is not None and labels is not None else ()):
                own = points[labels == k].numpy()  # type: ignore[index]
                mark, colour = "o^sDvX"[k % 6], (COLOURS[1], COLOURS[5], *COLOURS[2:5])[k % 5]
                axis.scatter(*own.T, s=26, marker=mark, color=colour, edgecolor="white", linewidth=0.6, label=name)
            if points is not None:
                axis.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=6, title="class")
            title = f"{len(regions):,} linear regions; the thick line is where the classes meet"
            axis.set(xlim=(x0, x1), ylim=(y0, y1), xlabel=columns[0], ylabel=columns[1], title=title)


def _shade_basins(axis: Any, basins: Basins, extent: tuple[float, ...]) -> None:
    from matplotlib.colors import ListedColormap

    labels = basins.labels.numpy().reshape(basins.size, basins.size)
    kinds = ["#808080", *(AREAS[k % len(AREAS)] for k in range(max(1, labels.max() + 1)))]
    axis.imshow(
        labels + 1,
        origin="lower",
        extent=extent,
        cmap=ListedColormap(kinds),
        vmin=0,
        vmax=len(kinds) - 1,
        alpha=0.35,
        interpolation="nearest",
        aspect="auto",
    )


def _mark_points(
    axis: Any, plane: Plane, points: FixedPoints, extent: tuple[float, ...]
) -> list[tuple[FixedPoint, Any]]:
    """Marks for those that lie within the picture, by kind; what they are and where."""
    inside: list[tuple[FixedPoint, Any]] = []
    for point in points.points:
        place = plane.project(point.state[None])[0].numpy()
        if extent[0] <= place[0] <= extent[1] and extent[2] <= place[1] <= extent[3]:
            inside.append((point, place))
    for k, kind in enumerate(MARKS):
        mark, size = MARKS[kind]
        of_kind = np.array([place for point, place in inside if point.kind == kind])
        if len(of_kind):
            axis.scatter(
                *of_kind.T,
                marker=mark,
                s=size,
                color=COLOURS[k],
                edgecolor="white",
                zorder=5,
                label=f"{kind} ({len(of_kind)})",
            )
    if inside:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=4, frameon=False)
    return inside


@dataclass(frozen=True)
class Move:
    """A way from one named state to another: the states on it, and the triggers that lead along it."""

    path: Float[Tensor, "T S"]
    triggers: tuple[str, ...]

    @property
    def label(self) -> str:
        """`Program 1, 2` for Program 1 and Program 2."""
        kinds: dict[str, list[str]] = {}
        for trigger in self.triggers:
            kind, _, rest = trigger.partition(" ")
            kinds.setdefault(kind, []).append(rest)
        return "; ".join(f"{kind} {', '.join(rests)}".strip() for kind, rests in kinds.items())


def plot_automaton(
    plane: Plane,
    states: Float[Tensor, "A S"],
    names: Sequence[str],
    moves: Sequence[Move],
    file: Path,
    title: str = "",
    endings: Sequence[str] = ENDINGS,
) -> None:
    """Named attractors, and the ways that the state takes between them as triggers fire."""
    places = plane.project(states).numpy()
    kinds = list(dict.fromkeys(move.triggers[0].split()[0] for move in moves))
    with figures(file, 13, 10.5, endings) as axes:
        for figure, axis in axes:
            named = set()
            for move in moves:
                k = kinds.index(move.triggers[0].split()[0])
                colour, dash = COLOURS[k % 6], DASHES[k % 4]
                way = plane.project(move.path).numpy()
                called = kinds[k] if k not in named else None
                named.add(k)
                axis.plot(way[:, 0], way[:, 1], color=colour, ls=dash, lw=1.6, alpha=0.85, label=called)
                axis.annotate("", way[1], xytext=way[0], arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6})
            axis.scatter(*places.T, s=150, color=COLOURS[0], edgecolor="white", zorder=5)
            axis.margins(0.1)
            axis.set(xlabel=plane.names[0], ylabel=plane.names[1], title=title)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=6, frameon=False)
            room = Room(figure, axis)
            room.keep_free(places)
            for name, place in zip(names, places, strict=True):
                room.write(name, [place], shrink=8, fontsize=14, fontweight="bold")
            for move in moves:
                way = plane.project(move.path).numpy()
                k = kinds.index(move.triggers[0].split()[0])
                box = {"boxstyle": "round,pad=0.15", "fc": figure.get_facecolor(), "ec": COLOURS[k % 6], "lw": 0.8}
                room.write(move.label, [way[0] + f * (way[1] - way[0]) for f in ALONG], fontsize=9.5, bbox=box)


def save_arrays(file: Path, **arrays: Tensor | np.ndarray[Any, Any]) -> None:
    """The data beside a picture, as `.npz`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ready = {
        name: value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        for name, value in arrays.items()
    }
    np.savez_compressed(file, **ready)  # type: ignore[arg-type]
