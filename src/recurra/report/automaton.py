"""The finite state machine in the network, for networks that read tokens and predict a class after each."""

from __future__ import annotations

import base64

from recurra.analysis.automata.weighted import WeightedExtraction
from recurra.errors import OptionError
from recurra.plots.automaton import to_svg
from recurra.report.page import Figure, Section, escape, table
from recurra.report.subject import Subject
from recurra.tasks.capabilities import Generates, ReadsTokens, offers

DRAWN = 24
"""Machines of more states are not drawn: nobody would follow their transitions."""


def automaton_section(subject: Subject) -> Section | None:
    task = subject.run.task
    if not offers(task, ReadsTokens) or offers(task, Generates):  # a language model's has hundreds of states
        return None
    try:
        found = subject.run.automaton(strings=200, scored=2000, most=32)
    except OptionError:  # as it is configured, it does not
        return None
    command, machine, curve = subject.command("automaton RUN"), found.machine, found.table()
    if isinstance(found, WeightedExtraction):
        caption = "What an automaton of so many states loses to the network; the arrow marks the one that was chosen."
        lead = (
            f"As a weighted automaton it takes {machine.size} states, which lose {found.chosen.lost:.3f} nats a step."
        )
        limit = "It is almost, not exactly, the network; rare symbols are not drawn."
    else:
        caption = (
            "How often a machine of so many states predicts what the network does; the arrow marks the chosen one."
        )
        truth = "" if found.chosen.truth is None else f" and {found.chosen.truth:.2%} as is true"
        lead = f"As a finite machine it has {machine.size} states, which predict {found.chosen.network:.2%} as it does{truth}."
        limit = "It is almost, not exactly, the network: transitions that no string took are not known."
    chosen = f"Chosen as {found.why}, on strings apart from those that score; states are clusters of visited states."
    figures = [Figure(table(curve.columns, curve.rows), caption, chosen, command)]
    if machine.size <= DRAWN:
        drawn = base64.b64encode(to_svg(machine).encode()).decode()
        alt = escape(f"A machine of {machine.size} states with the transitions between them.")
        figures.append(
            Figure(
                f'<img src="data:image/svg+xml;base64,{drawn}" alt="{alt}">',
                f"The machine: {machine.size} states, and where each symbol leads from each.",
                limit,
                command.replace("automaton", "automaton --svg machine.svg"),
            )
        )
    return Section("Automaton", figures, f"{lead} {found.about}".strip())
