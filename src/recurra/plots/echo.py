"""How far two starts stay apart under the same input."""

from __future__ import annotations

from typing import Any

from recurra.analysis.echo import FLOOR, Echo
from recurra.plots.figure import COLOURS, painter


@painter(Echo)
def paint_echo(axis: Any, echo: Echo) -> None:
    logs = echo.distances.clamp(min=FLOOR).log10().numpy()
    axis.plot(range(1, len(logs) + 1), logs, color=COLOURS[0], lw=2)
    axis.set(xlabel="step", ylabel="log₁₀ of the distance", title=f"Two starts: ×{echo.rate:.4g} a step")
    axis.grid(alpha=0.6)
