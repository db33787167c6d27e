"""The sections of a report in order, and how they become one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from recurra.errors import RecurraError, RunError
from recurra.report.attractors import attractors_section
from recurra.report.automaton import automaton_section
from recurra.report.curves import curves_section
from recurra.report.gradients import gradients_section
from recurra.report.mimic import mimic_section
from recurra.report.page import Section, render
from recurra.report.samples import samples_section
from recurra.report.scores import scores_section
from recurra.report.subject import Subject
from recurra.report.trained import trained_section
from recurra.report.units import units_section
from recurra.results import Result
from recurra.runs.disk import reason, replace_file
from recurra.tasks.run import Run

SECTIONS: dict[str, Callable[[Subject], Section | None]] = {
    "what was trained": trained_section,
    "scores": scores_section,
    "samples": samples_section,
    "curves": curves_section,
    "units": units_section,
    "gradients": gradients_section,
    "attractors": attractors_section,
    "automaton": automaton_section,
    "decision tree": mimic_section,
}
"""Each gives its section, or `None` where it does not apply; where it cannot be made, its error says why."""


OF_THE_LOG = ("what was trained", "curves")
"""The sections that ask nothing of the model."""


@dataclass(frozen=True)
class Report(Result):
    """A report that was written: its file, the sections that it has, and the reasons for those that could not be made."""

    path: Path
    sections: list[Section]
    left_out: dict[str, str]

    def __str__(self) -> str:
        leads = [section.lead for section in self.sections if section.lead]
        return "\n".join([*leads, f"report: {self.path}"])

    def to_json(self) -> dict[str, Any]:
        titles = [section.title for section in self.sections]
        return {"report": str(self.path), "sections": titles, "left_out": self.left_out}


def write_report(run: Run, steps: int | None = None, starts: int | None = None) -> Report:
    """Write RUN/report.html from the run's results.

    - `steps`, `starts`: how far back gradients are followed, and how many starts a search for fixed points has.
    """
    folder = run.folder
    try:
        folder.explain.mkdir(exist_ok=True)
        sections, left_out = _make_sections(Subject(run, steps, starts))
        lead = f"A run of the recipe {run.settings.name}: {run.task.called}."
        page = render(f"Run {folder.path.resolve().name}", lead, sections, left_out)
        replace_file(folder.report, page.encode())
    except OSError as error:
        where = error.filename or folder.report
        raise RunError(f"{where} cannot be written ({reason(error)}). Give the run folder room and rights.") from error
    return Report(folder.report, sections, left_out)


def _make_sections(subject: Subject) -> tuple[list[Section], dict[str, str]]:
    sections, left_out = [], {}
    is_sound = all(bool(torch.isfinite(each).all()) for each in subject.run.model.state_dict().values())
    for name, make in SECTIONS.items():
        if not is_sound and name not in OF_THE_LOG:
            left_out[name] = "a weight of the model is not finite: training has diverged"
            continue
        try:
            section = make(subject)
        except RecurraError as error:
            left_out[name] = str(error)
            continue
        if section is not None:
            sections.append(section)
    return sections, left_out
