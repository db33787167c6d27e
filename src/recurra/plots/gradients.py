"""Log norms over the lag: of the product of Jacobians, of the loss's gradient at each state, and for all pairs (t, k)."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.analysis.gradient_map import GradientMap
from recurra.analysis.gradients import GradientFlow
from recurra.plots.figure import COLOURS, DASHES, painter


@painter(GradientFlow)
def paint_gradients(axis: Any, flow: GradientFlow) -> None:
    lags = np.array(flow.lags)
    axis.plot(lags, flow.state.numpy() / np.log(10), color=COLOURS[0], lw=3, label="‖∂s(t)/∂s(t−k)‖")
    for k, (name, logs) in enumerate(flow.loss.items()):
        values = np.where(np.isfinite(logs.numpy()), logs.numpy(), np.nan) / np.log(10)
        label = f"‖∂L(t)/∂{name}(t−k)‖"
        axis.plot(lags, values, color=COLOURS[1 + k % 6], ls=DASHES[1 + k % 3], lw=2, label=label)
    for k, (name, logs) in enumerate(flow.carried.items()):
        label = f"what {name} carries over by itself"
        axis.plot(lags, logs.numpy() / np.log(10), color=COLOURS[5 - k % 2], ls=":", lw=2, label=label)
    axis.axhline(0, lw=1, color=COLOURS[7])
    axis.set(xlabel="k, steps back", ylabel="log₁₀ of the norm", title=f"The gradient {flow.verdict}")
    axis.grid(alpha=0.6)
    axis.legend()


@painter(GradientMap, (8, 7))
def paint_map(axis: Any, found: GradientMap) -> None:
    """Pairs that do not exist, and gradients that are exactly zero, are left blank."""
    logs = found.logs.numpy() / np.log(10)
    shown = np.where(np.isfinite(logs), logs, np.nan)
    most = max(1.0, float(np.nanmax(np.abs(np.clip(shown, -12, 12)))))
    shade = axis.imshow(
        shown,
        origin="lower",
        aspect="auto",
        cmap="RdBu_r",
        vmin=-most,
        vmax=most,
        extent=(-0.5, found.steps + 0.5, 0.5, found.steps + 0.5),
    )
    axis.figure.colorbar(shade, ax=axis, label="log₁₀ ‖∂s(t)/∂s(t−k)‖", shrink=0.8)
    axis.set(xlabel="k, steps back", ylabel="t", title=f"The gradient {found.verdict}")
    axis.title.set_size(13)
