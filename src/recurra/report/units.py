"""Single units over the text that they read."""

from __future__ import annotations

from collections.abc import Sequence

from recurra.analysis.neurons import Finding, Unit
from recurra.analysis.source_labels import Labeller, python_labels, text_labels
from recurra.analysis.unit_study import UnitStudy, deal, read_pieces, study_units
from recurra.plots.units import ColouredText, excerpt
from recurra.report.page import Figure, Section, escape, table
from recurra.report.subject import Subject
from recurra.tasks.language import LanguageTask

SIZE, ABLATED = 48_000, 400
"""Characters that a report looks at, and steps of each text that it compares losses over."""


def units_section(subject: Subject) -> Section | None:
    task = subject.task
    if not isinstance(task, LanguageTask):
        return None
    labels = usual_labels([document.name for document in task.held_out])
    texts = [document.text for document in task.held_out]
    chosen, scored = (read_pieces(task.tokenizer, texts, part, labels) for part in deal(texts, SIZE))
    study = study_units(subject.model, task.untrained_model(), chosen, scored, gates=False, ablated=ABLATED)
    figures = study_figures(study, subject.command(f"units RUN --size {SIZE} --states"), subject)
    return Section("Units over text", figures, study.summary)


def usual_labels(names: Sequence[str]) -> Labeller:
    """The labels that suit files of these names: those of Python's tokens for Python source."""
    return python_labels if all(each.removesuffix(".gz").endswith(".py") for each in names) else text_labels


def study_figures(study: UnitStudy, command: str, subject: Subject, most: int = 3) -> list[Figure]:
    """The table of what was found, and the best units over an excerpt."""
    figures = []
    for finding in _apart(study.found)[:most]:
        unit = finding.best.unit
        body = coloured_block(excerpt(study, finding))
        figures.append(
            Figure(
                f"<h3>Unit {escape(str(unit))}: {escape(finding.label)}</h3>{body}",
                f"The value of one unit behind held-out text that it was not chosen by; underlined where {finding.label} holds"
                f" (correlation {finding.best.score:.2f}).",
                "An excerpt in which the label changes often. That a unit follows a label does not say that it causes anything: "
                "the table below gives the loss without it.",
                subject.command(f"units RUN --unit {unit} --label {finding.label}"),
            )
        )
    positions = len(study.activity.values)
    figures.append(
        Figure(
            table(study.table().columns, study.table().rows),
            f"For each label the unit that follows it best, chosen on {study.chosen_size:,} tokens and scored on {positions:,} "
            "others by correlation, and what the same search gives for shifted labels and before training; the same for a "
            "weighted sum of five units; and by how many nats a token the loss rises with the unit held at its mean, where the "
            "label holds (inside) and where it does not.",
            "A unit counts as one that follows a label if it is better than both controls by 0.1. A label may well be known to "
            "the network without a unit of its own: see the probe of five units.",
            command,
        )
    )
    return figures


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Each unit once: for the label that it follows best."""
    seen: dict[Unit, Finding] = {}
    for finding in findings:
        seen.setdefault(finding.best.unit, finding)
    return list(seen.values())


def coloured_block(coloured: ColouredText) -> str:
    key = (
        '<p><span class="key p8">high</span> <span class="key n8">low</span> <span class="key"><u>underlined</u>: '
        "the label holds</span></p>"
    )
    return f'{key}<pre tabindex="0">{coloured.to_html()}</pre>'
