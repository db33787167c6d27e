"""The decision tree that says at each step what the network says, for networks that name a class at each step."""

from __future__ import annotations

from importlib.util import find_spec

from recurra.errors import OptionError
from recurra.report.page import Figure, Section, picture
from recurra.report.subject import Subject
from recurra.tasks.mimic import held_out, judge_tree, mimic


def mimic_section(subject: Subject) -> Section | None:
    if find_spec("sklearn") is None:
        return None
    try:
        part, steps = held_out(subject.task)
    except OptionError:  # it names no class at each step
        return None
    tree = mimic(subject.task, subject.model)
    found = judge_tree(steps, subject.model, tree)
    said = f"{tree.leaves} leaves, average path length {found.path_length:.2f}, fidelity {found.fidelity:.4f}"
    file = subject.folder.explain / "mimic"
    tree.plot(file, title=said)
    return Section(
        "Decision tree",
        [
            Figure(
                picture(file, f"A decision tree with {said}."),
                "Questions about a step's inputs that lead to what the network says of it.",
                f"Its fidelity is the share of steps of the {part} part on which the two agree; it sees no earlier step.",
                subject.command("mimic RUN"),
            )
        ],
        f"A decision tree that mimics it has {said}.",
    )
