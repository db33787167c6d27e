"""What the model writes, or predicts for inputs that it never saw."""

from __future__ import annotations

from recurra.plots.chart import line_chart
from recurra.report.page import Figure, Section, table, text_block
from recurra.report.subject import Subject


def samples_section(subject: Subject) -> Section | None:
    shown = subject.run.examples()
    if shown is None or not shown.rows:
        return None
    body = ""
    if shown.lines is not None:
        body = line_chart(shown.lines, "steps from the last known value", "", "A series and its forecast.")
    if len(shown.columns) == 1 and len(shown.rows) == 1:
        body += text_block(shown.rows[0][0])
    else:
        body += table(shown.columns, shown.rows)
    writes = shown.columns[-1] == "what it writes"
    return Section(
        "Samples",
        [
            Figure(
                body,
                "Text that the model writes, token by token."
                if writes
                else "What the model predicts, beside what is true.",
                "Drawn at temperature 0.8, which is safer than what was learned; not chosen by hand."
                if writes
                else "The first ones of the held-out part, not chosen by hand; too few to judge by.",
                subject.command(shown.command),
            )
        ],
    )
