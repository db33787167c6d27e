"""Eigenvalues are drawn beside a legend that leaves them room, however far out they are; a warning would be an error here."""

from typing import Any

import pytest
import torch

import recurra as rc
from recurra.analysis.gradients import Spectra


@pytest.mark.parametrize("radius", [0.9, 30.0])
@pytest.mark.parametrize("count", [1, 4])
def test_a_legend_leaves_room(radius: float, count: int, tmp_path: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = {
        f"layer {k}, U_{k}": rc.analysis.spectrum(radius * torch.randn(60, 60, generator=generator) / 60**0.5)
        for k in range(count)
    }
    figure = Spectra(matrices).plot(tmp_path / "eigenvalues.png")
    (axis,) = figure.axes
    assert axis.get_window_extent().width > 0.5 * figure.bbox.width
    legend = axis.get_legend().get_window_extent()
    assert 0 <= legend.x0 <= legend.x1 <= figure.bbox.width
