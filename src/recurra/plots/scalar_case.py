"""The scalar case: what each replica of the weights adds to the gradient, over k."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.lecture.scalar_case import ScalarCase
from recurra.plots.figure import COLOURS, DASHES, painter


@painter(ScalarCase)
def paint_scalar_case(axis: Any, case: ScalarCase) -> None:
    drawn = {"∂h(t)/∂h(t−k)": case.products, "∂e/∂w(t−k)": case.of_w, "∂e/∂v(t−k)": case.of_v}
    for k, (name, values) in enumerate(drawn.items()):
        sizes = np.abs(values.numpy())
        logs = np.log10(np.where(sizes > 0, sizes, np.nan))  # where it is exactly zero there is no point
        axis.plot(np.arange(len(logs)), logs, color=COLOURS[k], ls=DASHES[k], lw=2.5, marker=".", label=name)
    axis.set(xlabel="k, steps back", ylabel="log₁₀ of the absolute value", title="One unit: the gradient over time")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.6)
    axis.legend()
