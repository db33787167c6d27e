"""The picture of a forecast: what was known, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from recurra.plots.dynamics import COLOURS, find_matplotlib
from recurra.plots.picture import check_picture_name, save_picture
from recurra.types import Float

MOST = 12
"""Columns that have a panel each; more are drawn as one picture, a line of squares for each."""


def plot_forecast(
    known: Float[Tensor, "T C"],
    said: Float[Tensor, "K C"],
    names: Sequence[str],
    file: Path,
    title: str = "",
    *,
    low: Float[Tensor, "K C"] | None = None,
    high: Float[Tensor, "K C"] | None = None,
    true: Float[Tensor, "K C"] | None = None,
) -> None:
    """One panel for each column: as many known steps as were forecast, then the forecast. `file` is a .png or .svg.

    - `low`, `high`: the bounds of an interval around it. `true`: what came.

    ```python
    plot_forecast(series, model.run_free(200, *model.warm_up(series[None]))[0], ["y"], Path("forecast.svg"))
    ```
    """
    check_picture_name(file)
    matplotlib = find_matplotlib()
    from matplotlib import pyplot

    past = known[-max(len(said), 50) :]
    with matplotlib.rc_context({"svg.hashsalt": "recurra", "font.size": 12}):
        panels = len(names) if len(names) <= MOST else 1
        size = (10, 1.2 + 2.6 * panels if panels == len(names) else 1.2 + 0.08 * len(names))
        figure, axes = pyplot.subplots(panels, figsize=size, layout="constrained", sharex=True, squeeze=False)
        if panels < len(names):
            whole = torch.cat([past.double(), said.double()]).T.numpy()
            axes[0, 0].imshow(
                whole, aspect="auto", origin="lower", cmap="Greys", extent=(-len(past), len(said), 0, len(names))
            )
            axes[0, 0].set_yticks([k + 0.5 for k in range(0, len(names), MOST)], names[::MOST])
            axes[0, 0].axvline(0, color=COLOURS[1], lw=1.5)
        for k, name in enumerate(names if panels == len(names) else ()):
            axis = axes[k, 0]
            axis.plot(range(1 - len(past), 1), past[:, k].numpy(), color=COLOURS[0], lw=1.8, label="known")
            ahead = range(1, len(said) + 1)
            if low is not None and high is not None:
                bounds = low[:, k].numpy(), high[:, k].numpy()
                axis.fill_between(ahead, *bounds, color=COLOURS[1], alpha=0.25, lw=0, label="interval")
            if true is not None:
                axis.plot(ahead, true[:, k].numpy(), color=COLOURS[0], lw=1.8, alpha=0.5, label="came true")
            joined = [float(past[-1, k]), *said[:, k].tolist()]
            axis.plot(range(len(joined)), joined, color=COLOURS[1], lw=1.8, ls="--", label="forecast")
            axis.axvline(0, color=COLOURS[7], lw=1)
            axis.set_ylabel(name, parse_math=False)
            axis.grid(alpha=0.4)
        if panels == len(names):
            figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
        axes[0, 0].set_title(title, loc="left", parse_math=False)
        axes[-1, 0].set(xlabel="steps from the last known value")
        save_picture(figure, file)
        pyplot.close(figure)
