"""Synthetic series with a class each: kinds that differ in length, channels, number, and in where the information lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recurra.errors import choose_from

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, "Array", int], "Array"]


@dataclass(frozen=True)
class SeriesKind:
    """A kind of labelled series.

    - `about`: where the information lies. `train`, `length`, `channels`, `classes`: how many; `length` is the smallest and the
      largest, and a series has a length between them.
    - `draw`: random numbers, the times from 0 to 1 of the series and its class, to values `[T, C]`.
    """

    about: str
    train: int
    length: tuple[int, int]
    channels: int
    classes: int
    draw: Draw


def _smooth(random: np.random.Generator, t: Array, waves: int = 4) -> Array:
    """A smooth curve: a few sines of falling size."""
    orders = np.arange(1, waves + 1)
    sizes, phases = random.normal(size=waves) / orders, random.uniform(0, 2 * np.pi, waves)
    return np.asarray((sizes * np.sin(2 * np.pi * t[:, None] * orders + phases)).sum(1))


def _template(name: int, label: int, t: Array, channels: int = 1, waves: int = 4) -> Array:
    """The smooth curves that a class has in every series: they depend on its number alone."""
    own = np.random.default_rng([name, label])
    return np.column_stack([_smooth(own, t, waves) for _ in range(channels)])


def _warp(random: np.random.Generator, t: Array, size: float) -> Array:
    """Time that runs faster and slower, from 0 to 1."""
    bent = t + size * np.sin(np.pi * t) * random.normal() + size / 2 * np.sin(2 * np.pi * t) * random.normal()
    return np.clip(bent, 0, 1)


def _outline(random: np.random.Generator, t: Array, label: int) -> Array:
    common = _template(1, 99, _warp(random, t, 0.02))
    return common + 0.12 * _template(1, label, _warp(random, t, 0.02)) + 0.25 * random.normal(size=(len(t), 1))


def _trend(random: np.random.Generator, t: Array, label: int) -> Array:
    wiggle = 0.25 * np.sin(2 * np.pi * (8 + 2 * label) * t + random.uniform(0, 2 * np.pi))
    return (3 * _smooth(random, t, 3) + wiggle + 0.05 * random.normal(size=len(t)))[:, None]


def _load(random: np.random.Generator, t: Array, label: int) -> Array:
    morning, evening = (np.exp(-(((t - at) / 0.09) ** 2)) for at in (0.33 + 0.02 * random.normal(), 0.78))
    summer = np.exp(-(((t - 0.58) / 0.2) ** 2)) if label else 0.6 * morning
    load = 1 + summer + evening + 0.3 * random.normal() * t
    return np.asarray(load * (1 + 0.1 * random.normal()) + 0.5 * random.normal(size=len(t)))[:, None]


def _gesture(random: np.random.Generator, t: Array, label: int) -> Array:
    path = _template(2, label, _warp(random, t, 0.08), 3, waves=3)
    turned = path @ (np.eye(3) + 0.25 * random.normal(size=(3, 3)))
    return np.asarray(turned * np.exp(0.3 * random.normal()) + 0.3 * random.normal(size=path.shape))


def _frequency(random: np.random.Generator, t: Array, label: int) -> Array:
    wave = np.sin(2 * np.pi * ((10 + label) * t + random.uniform()))
    return (wave + 2.0 * random.normal(size=len(t)))[:, None]


def _motif(random: np.random.Generator, t: Array, label: int) -> Array:
    values, T = random.normal(size=len(t)), len(t)
    place = int(random.integers(T - 24))
    shapes = (np.linspace(-1, 1, 24), np.sin(np.linspace(0, 2 * np.pi, 24)), np.abs(np.linspace(-2, 2, 24)) - 1)
    values[place : place + 24] += 2.0 * shapes[label]
    return values[:, None]


def _level(random: np.random.Generator, t: Array, label: int) -> Array:
    noise = np.cumsum(random.normal(size=(len(t), 2)), axis=0) / np.sqrt(len(t))
    level = np.array([[0.0, 0.0], [1.2, 0.0], [0.0, 1.2]])[label]
    return np.asarray(level + noise + 0.5 * random.normal(size=noise.shape))


def _order(random: np.random.Generator, t: Array, label: int) -> Array:
    T, values = len(t), 0.9 * random.normal(size=len(t))
    first, second = sorted(random.choice(T // 8, 2, replace=False) * 8)
    bump = np.hanning(8)
    for place, sign in ((first, 1 if label else -1), (second, -1 if label else 1)):
        values[place : place + 8] += 2 * sign * bump[: T - place]
    return values[:, None]


def _many(random: np.random.Generator, t: Array, label: int) -> Array:
    path = _template(3, label, _warp(random, t, 0.05), 4)
    return path + 0.6 * random.normal(size=path.shape)


def _motions(random: np.random.Generator, t: Array, label: int) -> Array:
    own = np.random.default_rng([4, label])
    sizes, phases = np.abs(own.normal(size=10)), own.uniform(0, 2 * np.pi, 10)
    speed, start = 4 * np.exp(0.15 * random.normal()), random.uniform(0, 2 * np.pi)
    waves = sizes * np.sin(2 * np.pi * speed * t[:, None] + start + phases)
    return np.asarray(waves + 0.2 * random.normal(size=10) + 3.5 * random.normal(size=waves.shape))


def _scale(random: np.random.Generator, t: Array, label: int) -> Array:
    shape = _template(5, label, _warp(random, t, 0.04)) + 1.2 * random.normal(size=(len(t), 1))
    return np.asarray(np.exp(1.5 * random.normal()) * (shape + 3 * random.normal()))


def _process(random: np.random.Generator, t: Array, label: int) -> Array:
    """Oscillating noise of two steps' memory: how fast it fades and swings is the class."""
    values, shocks = np.zeros(len(t) + 50), random.normal(size=len(t) + 50)
    angle, size = (0.30, 0.36, 0.30)[label], (0.95, 0.95, 0.85)[label]
    for k in range(2, len(values)):
        values[k] = 2 * size * np.cos(angle) * values[k - 1] - size**2 * values[k - 2] + shocks[k]
    return values[50:, None]


def _loud(random: np.random.Generator, t: Array, label: int) -> Array:
    path = _template(6, label, t, 3)
    return path + 2.5 * random.normal(size=path.shape)


SERIES_KINDS = {
    "outline": SeriesKind("a smooth outline, slightly warped", 40, (150, 150), 1, 4, _outline),
    "trend": SeriesKind("a small wave on a large trend", 50, (250, 250), 1, 5, _trend),
    "load": SeriesKind("the hour of a peak", 67, (24, 24), 1, 2, _load),
    "gesture": SeriesKind("a path in space, fast or slow", 50, (40, 110), 3, 6, _gesture),
    "frequency": SeriesKind("a frequency in noise", 60, (200, 200), 1, 4, _frequency),
    "motif": SeriesKind("a short motif at any place", 200, (300, 300), 1, 3, _motif),
    "level": SeriesKind("the level of two noisy channels", 100, (60, 60), 2, 3, _level),
    "order": SeriesKind("which of two events comes first", 300, (80, 120), 1, 2, _order),
    "many": SeriesKind("one of twenty paths", 400, (60, 60), 4, 20, _many),
    "motions": SeriesKind("phases between ten channels", 100, (100, 100), 10, 6, _motions),
    "scale": SeriesKind("a shape, each series at a scale of its own", 80, (120, 120), 1, 4, _scale),
    "process": SeriesKind("the dynamics of noise, long", 60, (600, 600), 1, 3, _process),
    "noise": SeriesKind("a path under heavy noise, many series", 1000, (50, 50), 3, 5, _loud),
}
"""Kinds by name, for `labelled_series`."""


def labelled_series(kind: str, count: int | None = None, seed: int = 0) -> tuple[list[Array], list[str]]:
    """Series `[T, C]` of a kind of `SERIES_KINDS` and their classes, as even as can be; by default as many as training has.

    ```python
    series, labels = rc.data.labelled_series("gesture", 20)
    run = rc.train("classify", data=(series, labels), steps=20, valid=0.1)
    ```
    """
    chosen = SERIES_KINDS[choose_from("kind", kind, SERIES_KINDS)]
    random = np.random.default_rng([seed % 2**64, *kind.encode()])
    count = chosen.train if count is None else count
    classes = random.permutation(np.arange(count) % chosen.classes).tolist()
    lengths = random.integers(chosen.length[0], chosen.length[1] + 1, count).tolist()
    series = [chosen.draw(random, np.linspace(0, 1, T), label) for T, label in zip(lengths, classes, strict=True)]
    return series, [f"class {label + 1}" for label in classes]
