"""The decision tree distilled from the network, for networks that predict a class at each step."""

from __future__ import annotations

from importlib.util import find_spec

from recurra.report.page import Figure, Section, picture
from recurra.report.subject import Subject
from recurra.tasks.capabilities import ClassifiesSteps, offers


def mimic_section(subject: Subject) -> Section | None:
    run = subject.run
    if find_spec("sklearn") is None or not offers(run.task, ClassifiesSteps):
        return None
    found, file = run.mimic(), run.folder.explain / "mimic"
    found.plot(file)
    return Section(
        "Decision tree",
        [
            Figure(
                picture(file, f"A decision tree with {found.summary}."),
                "Questions about a step's inputs that lead to what the network predicts.",
                f"Its fidelity is the share of steps of the {found.part} part on which the two agree; it sees no earlier step.",
                subject.command("mimic RUN"),
            )
        ],
        f"A decision tree that mimics it has {found.summary}.",
    )
