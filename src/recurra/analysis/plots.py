"""Pictures of what the analysis found, for a lecture or a page: SVG and PNG, on a light and on a dark ground.

Colours are those of Okabe & Ito, which people with colour-blind eyes tell apart; lines differ in dash and points in form too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recurra.analysis.fields import Basins, Plane, VectorField
from recurra.analysis.fixed_points import FixedPoint, FixedPoints
from recurra.analysis.gradients import GradientFlow, Spectrum
from recurra.errors import OptionError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")
AREAS = (*COLOURS[:7], "#882255", "#44AA99", "#DDCC77", "#332288", "#AA4499", "#117733")
"""Colours of basins, which may be many: with those of Tol."""
DASHES = ("-", "--", "-.", ":")
MARKS = {"attractor": ("o", 110), "saddle": ("X", 90), "repeller": ("^", 100), "marginal": ("s", 80)}
GROUNDS = {"": ("white", "#222222", "#dddddd"), "-dark": ("#16181d", "#e8e8e8", "#3a3f47")}


def _matplotlib() -> Any:
    try:
        import matplotlib as found
    except ImportError:
        raise OptionError("plots need matplotlib. Install it with pip install 'recurra[analysis]'.") from None
    found.use("Agg")
    return found


@contextmanager
def figures(file: Path, width: float = 9.0, height: float = 5.5) -> Iterator[Iterator[tuple[Any, Any]]]:
    """The same drawing on both grounds: an axis to draw on for each, saved as SVG and PNG when it is done."""
    matplotlib = _matplotlib()
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
                file.parent.mkdir(parents=True, exist_ok=True)
                for ending in ("svg", "png"):
                    metadata = {"Date": None} if ending == "svg" else None
                    figure.savefig(file.with_name(f"{file.name}{suffix}.{ending}"), dpi=150, metadata=metadata)
                made.append((figure, suffix))

    yield each()
    for figure, _ in made:
        pyplot.close(figure)


def plot_gradients(flow: GradientFlow, file: Path) -> None:
    """Log norms over the lag: of the product of Jacobians, and of the loss's gradient at each state."""
    with figures(file) as axes:
        for _, axis in axes:
            lags = np.array(flow.lags)
            axis.plot(lags, flow.state.numpy() / np.log(10), color=COLOURS[0], lw=3, label="‖∂s(t)/∂s(t−k)‖")
            for k, (name, logs) in enumerate(flow.loss.items()):
                values = np.where(np.isfinite(logs.numpy()), logs.numpy(), np.nan) / np.log(10)
                colour, dash = COLOURS[1 + k % 6], DASHES[1 + k % 3]
                axis.plot(lags, values, color=colour, ls=dash, lw=2, label=f"‖∂L(t)/∂{name}(t−k)‖")
            axis.axhline(0, lw=1, color=COLOURS[7])
            axis.set(xlabel="k, steps back", ylabel="log₁₀ of the norm", title=f"The gradient {flow.verdict}")
            axis.grid(alpha=0.6)
            axis.legend()


def plot_spectrum(found: dict[str, Spectrum], file: Path) -> None:
    """Eigenvalues of recurrent matrices in the complex plane, with the unit circle."""
    with figures(file, 7.5, 7) as axes:
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
) -> None:
    """Arrows of one step over the plane, the speed as shade (or basins as colours), fixed points by kind, paths as lines.

    `names`: what the attractors are called, in the order of `points.attractors`.
    """
    low, high = field.places[0].numpy(), field.places[-1].numpy()
    extent = (low[0], high[0], low[1], high[1])
    with figures(file, 9, 8) as axes:
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
            if points is not None:
                _mark_points(axis, field.plane, points, names, extent)
            axis.set(
                xlim=extent[:2], ylim=extent[2:], xlabel=field.plane.names[0], ylabel=field.plane.names[1], title=title
            )


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


def _mark_points(axis: Any, plane: Plane, points: FixedPoints, names: Sequence[str], extent: tuple[float, ...]) -> None:
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
    called = {id(point): name for point, name in zip(points.attractors, names, strict=False)}
    reach = np.array([extent[1] - extent[0], extent[3] - extent[2]])
    marks = [place for _, place in inside]
    taken: list[Any] = []
    for point, place in inside:
        name = called.get(id(point))
        if not name:
            continue
        wide = (0.02 + 0.013 * len(name)) * reach[0]
        spot = next((s for s in _spots(place, wide, reach) if _is_free(s, wide, reach, marks, taken)), place)
        taken.append((spot, wide))
        axis.annotate(
            name,
            place,
            xytext=spot,
            fontsize=13,
            fontweight="bold",
            zorder=6,
            va="center",
            arrowprops={"arrowstyle": "-", "color": COLOURS[7], "lw": 0.8},
        )
    if inside:
        axis.legend(loc="lower right")


def _spots(place: Any, wide: float, reach: Any) -> Iterator[Any]:
    """Where the left end of a label may stand: near its point first, on the right, on the left, above, below."""
    for ring in range(1, 7):
        for side, up in ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1)):
            x = {1: 0.018 * reach[0] * ring, 0: -wide / 2, -1: -wide - 0.018 * reach[0] * ring}[side]
            yield place + np.array([x, 0.03 * reach[1] * up * ring])


def _is_free(spot: Any, wide: float, reach: Any, marks: list[Any], taken: list[tuple[Any, float]]) -> bool:
    """Whether a label that begins here covers no mark and no other label."""
    high = 0.022 * reach[1]
    slack = 0.014 * reach[0]
    over_mark = any(spot[0] - slack < x < spot[0] + wide + slack and abs(y - spot[1]) < high for x, y in marks)
    over_label = any(
        spot[0] < other[0] + width and other[0] < spot[0] + wide and abs(other[1] - spot[1]) < 1.6 * high
        for other, width in taken
    )
    return not over_mark and not over_label


def save_arrays(file: Path, **arrays: Tensor | np.ndarray[Any, Any]) -> None:
    """The data beside a picture, as `.npz`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ready = {
        name: value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        for name, value in arrays.items()
    }
    np.savez_compressed(file, **ready)  # type: ignore[arg-type]
