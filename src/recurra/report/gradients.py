"""Gradients through time, and the eigenvalues behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurra.analysis.gradients import gradient_flow, recurrent_spectra
from recurra.analysis.jacobians import StepMap
from recurra.lecture.scalar_case import scalar_page
from recurra.plots.figure import ENDINGS
from recurra.report.page import Figure, Section, picture
from recurra.report.subject import Subject
from recurra.report.values import save_arrays, write_values
from recurra.runs.disk import replace_file
from recurra.runs.folder import RunFolder
from recurra.tasks.task import Probe

LARGE, FAR, NEAR = 256, 100, 32
"""In networks with a state larger than this, a report follows gradients 32 steps back from one step, not 100 from four."""
WARMUP = 40
"""Steps that are read before the first of them."""


def gradients_section(subject: Subject) -> Section:
    size = StepMap(subject.probe(NEAR + WARMUP).layer).size
    steps, ends = subject.steps or (NEAR if size > LARGE else FAR), 1 if size > LARGE else 4
    found = write_gradients(subject.folder, subject.probe(steps + WARMUP), steps, ("svg",), ends)
    command = subject.command(f"explain RUN --gradients --steps {steps}")
    files, verdict = subject.folder.explain, found["verdict"]
    figures = [
        Figure(
            picture(
                files / "gradients", f"Logarithm of the gradient's norm over the steps back. The gradient {verdict}."
            ),
            f"How much of a change of the state is left k steps later: the gradient {verdict}.",
            f"Along one sequence, from {'its last step' if ends == 1 else f'{ends} of its last steps'}; other inputs may carry "
            f"further, and over {steps} steps a small slope is uncertain. The norm is that of the direction that grows most. "
            "A gradient that holds says what could be learned, not what was.",
            command,
        )
    ]
    if found["spectral_radius"]:
        radii = ", ".join(f"{name} {radius:.3g}" for name, radius in found["spectral_radius"].items())
        figures.append(
            Figure(
                picture(
                    files / "eigenvalues", f"Eigenvalues in the complex plane with the unit circle. Radii: {radii}."
                ),
                f"Eigenvalues of the recurrent matrices; outside the circle a linear network would explode. Radii: {radii}.",
                "Gates and activations scale each step: the matrices alone decide only in a linear network.",
                command,
            )
        )
    return Section("Gradients through time", figures, found["summary"][0].upper() + found["summary"][1:])


def write_gradients(
    folder: RunFolder, probe: Probe, steps: int, endings: Sequence[str] = ENDINGS, ends: int = 4
) -> dict[str, Any]:
    """Follow gradients back along a typical sequence: pictures and numbers go to RUN/explain/, sentences come back."""
    flow = gradient_flow(probe.layer, probe.x[0], steps=steps, starts=ends)
    matrices = recurrent_spectra(probe.layer)
    flow.plot(folder.explain / "gradients", endings=endings)
    if matrices.matrices:
        matrices.plot(folder.explain / "eigenvalues", endings=endings)
    replace_file(folder.explain / "scalar.html", scalar_page().encode())
    save_arrays(folder.explain / "gradients.npz", flow.arrays())
    write_values(folder, "gradients.json", flow.to_json())
    return flow.to_json()
