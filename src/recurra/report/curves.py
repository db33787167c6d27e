"""How training went."""

from __future__ import annotations

import math
from typing import Any

from recurra.plots.chart import line_chart
from recurra.report.page import Figure, Section
from recurra.report.subject import Subject


def curves_section(subject: Subject) -> Section | None:
    rows = subject.run.metrics
    losses = {"training": _column(rows, "loss"), "validation": _column(rows, "valid")}
    losses = {name: line for name, line in losses.items() if line[0]}
    if not losses:
        return None
    unit, figures = subject.run.task.unit, []
    last = {name: ys[-1] for name, (_, ys) in losses.items()}
    told = ", ".join(f"{name} {value:.4g}" for name, value in last.items())
    figures.append(
        Figure(
            line_chart(losses, "step", "loss", f"The loss over training steps; at the end: {told}."),
            f"The loss as it was minimised, and on validation data, per {unit}; at the end {told}.",
            "Training values are of single batches, with dropout where there is any, and averaged where there are many; so "
            "they may lie above or below validation for that reason alone. Validation chose the model.",
            subject.command("explain RUN"),
        )
    )
    norms = _column(rows, "gradient_norm")
    if norms[0]:
        logs = (norms[0], [math.log10(value) if value > 0 else math.nan for value in norms[1]])
        figures.append(
            Figure(
                line_chart({"gradient": logs}, "step", "log₁₀ norm", "The norm of the gradient over training steps."),
                "The size of the gradient at each update, before it was clipped.",
                "A large gradient is no fault where it is clipped; one that never shrinks may be.",
                subject.command("explain RUN"),
            )
        )
    skipped = sum(bool(row.get("skipped")) for row in rows)
    lead = f"{skipped} steps were skipped because their gradient was not finite." if skipped else ""
    return Section("Curves", figures, lead)


def _column(rows: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    found = [
        (float(row["step"]), float(row[name]))
        for row in rows
        if isinstance(row.get(name), int | float) and math.isfinite(row[name])
    ]
    return [step for step, _ in found], [value for _, value in found]
