"""Single units over the text that they read."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from recurra.analysis.neurons import Activity, Finding, Unit
from recurra.analysis.source_labels import Labeller, python_labels, text_labels
from recurra.analysis.unit_study import Reading, UnitStudy, deal, holds, read_pieces, study_units
from recurra.plots.unit_colours import ColouredText, colour_text
from recurra.report.page import Figure, Section, escape, table
from recurra.report.subject import Subject
from recurra.tasks.language import LanguageTask

SIZE, ABLATED = 48_000, 400
"""Characters that a report looks at, and steps of each text that it compares losses over."""
EXCERPT = 1200


def units_section(subject: Subject) -> Section | None:
    task = subject.task
    if not isinstance(task, LanguageTask):
        return None
    labels = usual_labels([document.name for document in task.held_out])
    texts = [document.text for document in task.held_out]
    chosen, scored = (read_pieces(task.tokenizer, texts, part, labels) for part in deal(texts, SIZE))
    study = study_units(subject.model, task.untrained_model(), chosen, scored, gates=False, ablated=ABLATED)
    figures = study_figures(study, subject.command(f"units RUN --size {SIZE} --states"), subject)
    return Section("Units over text", figures, summary(study))


def usual_labels(names: Sequence[str]) -> Labeller:
    """The labels that suit files of these names: those of Python's tokens for Python source."""
    return python_labels if all(each.removesuffix(".gz").endswith(".py") for each in names) else text_labels


def summary(study: UnitStudy) -> str:
    found = [f"{each.label} ({each.best.unit}, {each.best.score:.2f})" for each in study.findings if each.is_found]
    missing = [each.label for each in study.findings if not each.is_found]
    said = f"Single units follow {', '.join(found)}." if found else "No single unit follows any of the labels."
    return said + (f" None follows {', '.join(missing)}." if found and missing else "")


def study_figures(study: UnitStudy, command: str, subject: Subject, most: int = 3) -> list[Figure]:
    """The table of what was found, and the best units over an excerpt."""
    figures = []
    found = sorted((each for each in study.findings if each.is_found), key=lambda each: -each.best.score)
    for finding in _apart(found)[:most]:
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
            table(COLUMNS, [row(each, study) for each in study.findings]),
            f"For each label the unit that follows it best, chosen on {study.chosen_size:,} symbols and scored on {positions:,} "
            "others by correlation, and what the same search gives for shifted labels and before training; the same for a "
            "weighted sum of five units; and by how many nats a symbol the loss rises with the unit held at its mean, where the "
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


COLUMNS = (
    "label",
    "unit",
    "score",
    "AUC",
    "shifted labels",
    "untrained",
    "five units",
    "shifted labels",
    "untrained",
    "loss inside",
    "loss outside",
)


def row(finding: Finding, study: UnitStudy) -> list[str]:
    best, lost = finding.best, study.ablations.get(finding.label)
    return [
        finding.label,
        str(best.unit) if finding.is_found else "none",
        f"{best.score:.2f}",
        "—" if best.auc is None else f"{best.auc:.2f}",
        f"{finding.trained.by_chance:.2f}",
        f"{finding.untrained.hits[0].score:.2f}",
        f"{finding.trained.probe.score:.2f}",
        f"{finding.trained.probe_by_chance:.2f}",
        f"{finding.untrained.probe.score:.2f}",
        "—" if lost is None else f"{lost.where:+.3f}",
        "—" if lost is None else f"{lost.elsewhere:+.3f}",
    ]


def excerpt(study: UnitStudy, finding: Finding, size: int = EXCERPT) -> ColouredText:
    """The best unit of a label over the stretch of a text in which the label changes most often."""
    return colour_reading(study.scored, study.activity, finding.best.unit, finding.label, finding.best.sign, size)


def colour_reading(
    reading: Reading, activity: Activity, unit: Unit, label: str | None, sign: int = 1, size: int | None = EXCERPT
) -> ColouredText:
    """A unit over a text; with a size, over that many symbols of the text where the label changes most."""
    values = activity.of(unit)
    true = None if label is None else holds(reading.labels[label])
    ends = reading.lengths.cumsum(0).tolist()
    begin, end, text = 0, ends[0], 0
    if true is not None and size is not None:
        turns = torch.cat([torch.zeros(1), (true[1:] != true[:-1]).float()]).cumsum(0)
        most = -1.0
        for k, last in enumerate(ends):
            first = last - int(reading.lengths[k])
            for start in range(first, max(first + 1, last - size + 1), 100):
                stop = min(last, start + size)
                if float(turns[stop - 1] - turns[start]) > most:
                    most, begin, end, text = float(turns[stop - 1] - turns[start]), start, stop, k
    elif size is not None:
        end = min(end, size)
    first = ends[text] - int(reading.lengths[text])
    symbols = reading.symbols(text)
    if begin > first:  # from the start of a line, if there is one
        begin = next((k + 1 for k in range(begin, end - 1) if symbols[k - first].endswith("\n")), begin)
    symbols = symbols[begin - first : end - first]
    low, high = torch.quantile(values[:: max(1, len(values) // 100_000)], torch.tensor([0.01, 0.99])).tolist()
    bounds = {"low": low, "high": high} if sign > 0 else {"low": high, "high": low}
    return colour_text(symbols, values[begin:end], None if true is None else true[begin:end], **bounds)


def coloured_block(coloured: ColouredText) -> str:
    key = (
        '<p><span class="key p8">high</span> <span class="key n8">low</span> <span class="key"><u>underlined</u>: '
        "the label holds</span></p>"
    )
    return f'{key}<pre tabindex="0">{coloured.to_html()}</pre>'
