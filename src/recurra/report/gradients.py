"""Gradients through time, and the eigenvalues behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from recurra.analysis.gradients import Verdict, gradient_flow, spectrum
from recurra.analysis.jacobians import StepMap
from recurra.lecture.scalar_case import scalar_page
from recurra.plots.dynamics import ENDINGS, plot_gradients, plot_spectrum, save_arrays
from recurra.report.page import Figure, Section, picture
from recurra.report.subject import Subject
from recurra.report.values import write_values
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
    matrices = {
        f"layer {k} U.{name}" if len(probe.layer.stack) > 1 else f"U.{name}": spectrum(directions[0].matrix(name))
        for k, directions in enumerate(probe.layer.stack)
        for name in probe.layer.cell.graph.matrices
    }
    plot_gradients(flow, folder.explain / "gradients", endings)
    if matrices:
        plot_spectrum(matrices, folder.explain / "eigenvalues", endings)
    replace_file(folder.explain / "scalar.html", scalar_page().encode())
    save_arrays(
        folder.explain / "gradients.npz",
        lags=torch.tensor(flow.lags),
        state=flow.state,
        singular_values=flow.singular_values,
        units=flow.units,
        lyapunov=flow.lyapunov,
        **{f"loss {name}": values for name, values in flow.loss.items()},
        **{f"carried {name}": values for name, values in flow.carried.items()},
    )
    kinds: dict[str, int] = {}
    for unit in flow.units.tolist():
        kind = Verdict(unit, steps).kind
        kinds[kind] = kinds.get(kind, 0) + 1
    largest = float(flow.lyapunov[0])
    row = {
        "verdict": str(flow.verdict),
        "slope": flow.verdict.slope,
        "units": kinds,
        "largest_lyapunov_exponent": largest,
        "carried": {name: str(flow.verdict_on_carried(name)) for name in flow.carried},
        "factors": [asdict(factor) for factor in flow.factors],
        "spectral_radius": {name: one.radius for name, one in matrices.items()},
    }
    write_values(folder, "gradients.json", row)
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return row | {
        "summary": f"the gradient {flow.verdict}. Units: {said}. Largest Lyapunov exponent {largest:.4g} a step."
    }
