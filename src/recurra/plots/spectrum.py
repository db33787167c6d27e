"""Eigenvalues of recurrent matrices in the complex plane, with the unit circle."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.analysis.gradients import Spectra, Spectrum
from recurra.plots.figure import COLOURS, painter


@painter(Spectrum, (7.5, 7))
def paint_spectrum(axis: Any, spectrum: Spectrum) -> None:
    paint_spectra(axis, Spectra({"U": spectrum}))


@painter(Spectra, (7.5, 7))
def paint_spectra(axis: Any, spectra: Spectra) -> None:
    turn = np.linspace(0, 2 * np.pi, 400)
    axis.plot(np.cos(turn), np.sin(turn), color=COLOURS[7], lw=1.5)
    for k, (name, one) in enumerate(spectra.matrices.items()):
        values, label = one.eigenvalues.numpy(), f"{name}: radius {one.radius:.3g}"
        look = {"s": 28, "alpha": 0.8, "color": COLOURS[k % 7], "marker": "ox^sDv"[k % 6]}
        axis.scatter(values.real, values.imag, label=label, **look)
    axis.set(xlabel="real part", ylabel="imaginary part", title="Eigenvalues and the unit circle", aspect="equal")
    axis.grid(alpha=0.6)
    if spectra.matrices:  # a cell without products has none
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
