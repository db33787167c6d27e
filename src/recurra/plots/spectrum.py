"""Eigenvalues of recurrent matrices in the complex plane, with the unit circle."""

from __future__ import annotations

from typing import Any

import numpy as np

from recurra.analysis.gradients import Spectra, Spectrum
from recurra.plots.figure import COLOURS, painter

FURTHEST = 4.0
"""How far out the picture goes: beyond it, nobody would see the unit circle."""
WIDEST = 28
"""Characters of a label up to which two stand side by side under the picture."""


@painter(Spectrum, (7.5, 8))
def paint_spectrum(axis: Any, spectrum: Spectrum) -> None:
    paint_spectra(axis, Spectra({"U": spectrum}))


@painter(Spectra, (7.5, 8))
def paint_spectra(axis: Any, spectra: Spectra) -> None:
    turn = np.linspace(0, 2 * np.pi, 400)
    axis.fill(np.cos(turn), np.sin(turn), color=COLOURS[7], alpha=0.15)
    axis.plot(np.cos(turn), np.sin(turn), color=COLOURS[7], lw=2)
    radius = max([one.radius for one in spectra.matrices.values()], default=1.0)
    reach = min(max(1.15, 1.08 * radius), FURTHEST)
    labels = []
    for k, (name, one) in enumerate(spectra.matrices.items()):
        values, label = one.eigenvalues.numpy(), f"{name}: radius {one.radius:.3g}"
        look = {"s": 28, "alpha": 0.8, "color": COLOURS[k % 7], "marker": "ox^sDv"[k % 6]}
        far = np.abs(values) > reach
        # further out than the picture goes: at its border, in their direction
        shown = np.where(far, 0.97 * reach * values / np.maximum(np.abs(values), 1e-300), values)
        label += f"; {far.sum()} outside, drawn at the border" if far.any() else ""
        axis.scatter(shown.real, shown.imag, label=label, **look)
        labels.append(label)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach))
    axis.set(xlabel="real part", ylabel="imaginary part", title="Eigenvalues and the unit circle", aspect="equal")
    axis.grid(alpha=0.6)
    if labels:  # a cell without products has none
        columns = 2 if max(map(len, labels)) <= WIDEST else 1  # a legend wider than the picture leaves no room for it
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=columns, frameon=False)
