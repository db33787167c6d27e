"""Lines over steps as SVG, in the page's own colours: one picture for light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 800, 340, 78, 50, 14
POINTS = 400
"""So many places are drawn at most; more are averaged."""


def line_chart(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], across: str, up: str, alt: str) -> str:
    """Up to four lines by name, each with its steps and values. NaN and ±inf are left out."""
    thin = {name: _thinned(xs, ys) for name, (xs, ys) in lines.items()}
    thin = {name: points for name, points in thin.items() if points}
    every = [point for points in thin.values() for point in points]
    if not every:
        return ""
    (x0, x1), (y0, y1) = (_range([point[k] for point in every]) for k in range(2))

    def px(x: float) -> float:
        return LEFT + (WIDTH - LEFT - 12) * (x - x0) / (x1 - x0)

    def py(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (y1 - y) / (y1 - y0)

    grid = [
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 12}" y1="{py(y):.1f}" y2="{py(y):.1f}"/>'
        f'<text x="{LEFT - 8}" y="{py(y) + 5:.1f}" text-anchor="end">{y:.6g}</text>'
        for y in _ticks(y0, y1)
    ]
    grid += [f'<text x="{px(x):.1f}" y="{HEIGHT - 26}" text-anchor="middle">{x:.6g}</text>' for x in _ticks(x0, x1)]
    drawn = []
    for k, points in enumerate(thin.values()):
        way = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        dot = f'<circle cx="{px(points[0][0]):.1f}" cy="{py(points[0][1]):.1f}" r="3" class="s{k % 4}" fill="none"/>'
        drawn.append(
            f'<polyline class="s{k % 4}" fill="none" stroke-width="2.5" points="{way}"/>' if len(points) > 1 else dot
        )
    keys = " ".join(
        f'<svg viewBox="0 0 40 10" style="display:inline-block;width:2.5rem" aria-hidden="true"><line x1="0" x2="40" y1="5" '
        f'y2="5" class="s{k % 4}" stroke-width="3"/></svg> {escape(name)} &ensp;'
        for k, name in enumerate(thin)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(alt)}">{"".join(grid)}{"".join(drawn)}'
        f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{escape(across)}</text>'
        f'<text transform="rotate(-90)" x="{-(HEIGHT - BOTTOM) / 2}" y="16" text-anchor="middle">{escape(up)}</text></svg>'
        f"<p>{keys}</p>"
    )


def _thinned(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
    group = -(-len(points) // POINTS) or 1
    parts = [points[k : k + group] for k in range(0, len(points), group)]
    return [(part[len(part) // 2][0], sum(y for _, y in part) / len(part)) for part in parts]


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = (high - low) * 0.03 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 8)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
