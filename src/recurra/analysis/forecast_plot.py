"""The picture of a forecast: what was known, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from recurra.analysis.picture import check_picture_name, save_picture
from recurra.analysis.plots import COLOURS, find_matplotlib
from recurra.types import Float


def plot_forecast(
    known: Float[Tensor, "T C"], said: Float[Tensor, "K C"], names: Sequence[str], file: Path, title: str = ""
) -> None:
    """One panel for each column: as many known steps as were forecast, then the forecast. `file` is a .png or .svg.

    ```python
    plot_forecast(series, model.run_free(200, *model.warm_up(series[None]))[0], ["y"], Path("forecast.svg"))
    ```
    """
    check_picture_name(file)
    matplotlib = find_matplotlib()
    from matplotlib import pyplot

    past = known[-max(len(said), 50) :]
    with matplotlib.rc_context({"svg.hashsalt": "recurra", "font.size": 12}):
        size = (10, 1.2 + 2.6 * len(names))
        figure, panels = pyplot.subplots(len(names), figsize=size, layout="constrained", sharex=True, squeeze=False)
        for k, name in enumerate(names):
            axis = panels[k, 0]
            axis.plot(range(1 - len(past), 1), past[:, k].numpy(), color=COLOURS[0], lw=1.8, label="known")
            joined = [float(past[-1, k]), *said[:, k].tolist()]
            axis.plot(range(len(joined)), joined, color=COLOURS[1], lw=1.8, ls="--", label="forecast")
            axis.axvline(0, color=COLOURS[7], lw=1)
            axis.set(ylabel=name)
            axis.grid(alpha=0.4)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        panels[0, 0].set_title(title, loc="left")
        panels[-1, 0].set(xlabel="steps from the last known value")
        save_picture(figure, file)
        pyplot.close(figure)
