"""A forecast: what was known, and how it goes on."""

from __future__ import annotations

from typing import Any

import torch

from recurra.metrics.forecast import Forecast
from recurra.plots.figure import COLOURS, painter

MOST = 12
"""Columns that have a panel each; more are drawn as one picture, a line of squares for each."""
LEAST = 50
"""Known steps that are drawn; as many as were forecast where those are more."""


def _size(forecast: Forecast) -> tuple[float, float]:
    count = len(forecast.names)
    return 10, 1.2 + (2.6 if count <= MOST else 0.08) * count


@painter(Forecast, _size)
def paint_forecast(axis: Any, forecast: Forecast, *, title: str = "") -> None:
    """One panel for each column: the known steps, then the forecast with its interval, and what came where that is known."""
    if len(forecast.names) > MOST:
        _paint_squares(axis, forecast)
        axis.set_title(title, loc="left")
        return
    # the panels share the place of the axis
    figure, grid = axis.figure, axis.get_subplotspec().subgridspec(len(forecast.names), 1)
    axis.remove()
    first = None
    for k, name in enumerate(forecast.names):
        panel = figure.add_subplot(grid[k], sharex=first)
        _paint_column(panel, forecast, k)
        panel.set_ylabel(name)
        panel.label_outer()
        first = first or panel
    assert first is not None
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper right", ncols=4)
    first.set_title(title, loc="left")
    panel.set_xlabel(STEPS)


STEPS = "steps from the last known value"


def _paint_column(axis: Any, forecast: Forecast, k: int) -> None:
    past = forecast.known[-max(len(forecast.predictions), LEAST) :, k].tolist()
    ahead = range(1, len(forecast.predictions) + 1)
    axis.plot(range(1 - len(past), 1), past, color=COLOURS[0], lw=1.8, label="known")
    if forecast.low is not None and forecast.high is not None:
        bounds = forecast.low[:, k].numpy(), forecast.high[:, k].numpy()
        axis.fill_between(ahead, *bounds, color=COLOURS[1], alpha=0.25, lw=0, label="interval")
    if forecast.true is not None:
        axis.plot(ahead, forecast.true[:, k].numpy(), color=COLOURS[0], lw=1.8, alpha=0.5, label="came true")
    joined = [past[-1], *forecast.predictions[:, k].tolist()]
    axis.plot(range(len(joined)), joined, color=COLOURS[1], lw=1.8, ls="--", label="forecast")
    axis.axvline(0, color=COLOURS[7], lw=1)
    axis.grid(alpha=0.4)


def _paint_squares(axis: Any, forecast: Forecast) -> None:
    past, ahead, count = (
        forecast.known[-max(len(forecast.predictions), LEAST) :],
        forecast.predictions,
        len(forecast.names),
    )
    whole = torch.cat([past.double(), ahead.double()]).T.numpy()
    edges = (-len(past), len(ahead), 0, count)
    axis.imshow(whole, aspect="auto", origin="lower", cmap="Greys", extent=edges)
    axis.set_yticks([k + 0.5 for k in range(0, count, MOST)], forecast.names[::MOST])
    axis.axvline(0, color=COLOURS[1], lw=1.5)
    axis.set_xlabel(STEPS)
