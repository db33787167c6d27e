"""Gradients through time, and the eigenvalues behind them."""

from __future__ import annotations

from recurra.report.page import Figure, Section, picture
from recurra.report.parts import keep_gradients
from recurra.report.subject import Subject, capital
from recurra.tasks.dynamics import FAR

LARGE, NEAR = 256, 32
"""In networks with a state larger than this, a report follows gradients 32 steps back from one step, not 100 from four."""


def gradients_section(subject: Subject) -> Section:
    run = subject.run
    is_large = run.state_size > LARGE
    steps, starts = subject.steps or (NEAR if is_large else FAR), 1 if is_large else 4
    found = keep_gradients(run, steps, starts, ("svg",))
    command = subject.command(f"explain RUN --gradients --steps {steps}")
    files, verdict = run.folder.explain, found.verdict
    radii = {name: one.radius for name, one in run.spectra().matrices.items()}
    figures = [
        Figure(
            picture(
                files / "gradients", f"Logarithm of the gradient's norm over the steps back. The gradient {verdict}."
            ),
            f"How much of a change of the state is left k steps later: the gradient {verdict}.",
            f"Along one sequence, from {'its last step' if starts == 1 else f'{starts} of its last steps'}; others may carry "
            f"further, and over {steps} steps a small slope is uncertain. The norm is that of the direction that grows most. "
            "A gradient that holds tells what could be learned, not what was.",
            command,
        )
    ]
    if radii:
        told = ", ".join(f"{name} {radius:.3g}" for name, radius in radii.items())
        figures.append(
            Figure(
                picture(
                    files / "eigenvalues", f"Eigenvalues in the complex plane with the unit circle. Radii: {told}."
                ),
                f"Eigenvalues of the recurrent matrices; outside the circle a linear network would explode. Radii: {told}.",
                "Gates and activations scale each step: the matrices alone decide only in a linear network.",
                command,
            )
        )
    return Section("Gradients through time", figures, capital(str(found)))
