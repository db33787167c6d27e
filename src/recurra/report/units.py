"""Single units over the text that they read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from recurra.analysis.neurons import Finding, Unit
from recurra.analysis.unit_study import PIECE, UnitStudy
from recurra.errors import OptionError
from recurra.plots.units import ColouredText, colour_reading, excerpt
from recurra.report.page import Figure, Section, escape, render, table
from recurra.report.subject import Subject
from recurra.runs.disk import reason, replace_file
from recurra.tasks.capabilities import ReadsText, offers
from recurra.tasks.run import Run
from recurra.tasks.unit_search import UnitReading

SIZE, ABLATED = 48_000, 400
"""Characters that a report looks at, and steps of each text that it compares losses over."""


def units_section(subject: Subject) -> Section | None:
    if not offers(subject.run.task, ReadsText):
        return None
    study = subject.run.units(gates=False, size=SIZE, ablated=ABLATED)
    figures = study_figures(study, subject.command(f"units RUN --size {SIZE} --states"), subject)
    return Section("Units over text", figures, study.summary)


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
                subject.command(f"units RUN --unit {unit} --label {shlex.quote(finding.label)}"),
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
    label = ' <span class="key"><u>underlined</u>: the label holds</span>' if any(coloured.holds) else ""
    key = f'<p><span class="key n8">low</span> <span class="key p8">high</span>{label}</p>'
    return f'{key}<pre tabindex="0">{coloured.to_html()}</pre>'


def write_units_page(run: Run, study: UnitStudy, html: Path, command: str) -> None:
    """A page with every unit that was found over an excerpt."""
    subject = Subject(run)
    figures = study_figures(study, subject.command(command), subject, most=len(study.findings))
    _write(run, html, "Units over text", Section("Units", figures, study.summary))


def write_unit_page(run: Run, found: UnitReading, html: Path) -> None:
    """A page with one unit over a text."""
    label = f" --label {shlex.quote(found.label)}" if found.label else ""
    figure = Figure(
        coloured_block(colour_reading(found.reading, found.activity, found.unit, found.label, size=PIECE)),
        f"The value of unit {found.unit} behind the text that it reads.",
        "One text; what a unit does here it need not do elsewhere.",
        Subject(run).command(f"units RUN --unit {found.unit}{label}"),
    )
    _write(run, html, f"Unit {found.unit}", Section("Over the text", [figure]))


def _write(run: Run, html: Path, title: str, section: Section) -> None:
    lead = f"Run {run.path.resolve().name}, a run of the recipe {run.settings.name}."
    try:
        replace_file(html, render(title, lead, [section]).encode())
    except OSError as error:
        raise OptionError(f"{html} cannot be written ({reason(error)}). Choose another place.") from error
