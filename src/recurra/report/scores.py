"""How well the model does on data that it never saw, beside baselines."""

from __future__ import annotations

from recurra.report.page import Figure, Section, table
from recurra.report.subject import Subject

NAMED = 20
"""Confusions of more classes than this are left out."""


def scores_section(subject: Subject) -> Section | None:
    run = subject.run
    if not run.is_trained:
        return None
    found = run.kept_scores() or run.evaluate()
    rows, command = found.table(), subject.command("evaluate RUN")
    figures = [
        Figure(
            table(rows.columns, [[cell or "—" for cell in row] for row in rows.rows]),
            f"Scores on {found.data} data: {found.count:,} {found.unit} that were not trained on.",
            "One run with one seed; another seed gives another last digit or two. Data that differs from this may be harder.",
            command,
        )
    ]
    if found.confusion is not None and 1 < len(found.confusion.labels) <= NAMED:
        counts = found.confusion.table()
        figures.append(
            Figure(
                table(counts.columns, counts.rows),
                "How often each class (row) was predicted as each (column).",
                "Rare classes have few examples here: a single mistake weighs much.",
                command,
            )
        )
    return Section("Scores", figures)
