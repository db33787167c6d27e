"""The finite state machine in the network, for networks that read symbols and name a class after each."""

from __future__ import annotations

import base64

from recurra.analysis.automata.extraction import extract
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.weighted import Weighted, extract_weighted
from recurra.errors import OptionError
from recurra.plots.automaton import to_svg
from recurra.report.page import Figure, Section, escape, table
from recurra.report.subject import Subject

STRINGS, SCORED, MOST = 200, 2000, 32
"""Strings to build and to choose on, strings to score on, and states at most: what a look takes."""
DRAWN = 24
"""Machines of more states are not drawn: nobody would follow their ways."""


def automaton_section(subject: Subject) -> Section | None:
    try:
        reading = subject.task.reading(subject.model)
    except OptionError:  # it names no classes, or reads no symbols
        return None
    if reading.is_language:
        return None
    command = subject.command("automaton RUN")
    if reading.predicts_next:
        chances = extract_weighted(reading, count=STRINGS, scored=SCORED, most=MOST)
        curve, why = chances.table(), chances.why
        machine: Moore | Weighted = chances.machine
        caption = "What an automaton of so many states loses to the network; the arrow marks the one that was chosen."
        lead = f"As an automaton with chances it takes {machine.size} states, which lose {chances.chosen.lost:.3f} nats a step."
        limit = "It is almost, not exactly, the network; rare symbols are not drawn."
    else:
        found = extract(reading, "quotient", count=STRINGS, scored=SCORED, most=MOST)
        curve, machine, why = found.table(), found.machine, found.why
        caption = (
            "How often a machine of so many states says what the network says; the arrow marks the one that was chosen."
        )
        truth = "" if found.chosen.truth is None else f" and {found.chosen.truth:.2%} as is true"
        lead = f"As a finite machine it takes {machine.size} states, which say {found.chosen.network:.2%} as the network{truth}."
        limit = "It is almost, not exactly, the network: ways that no string took are not known."
    chosen = f"Chosen as {why}, on strings apart from those that score; states are clusters of visited states."
    figures = [Figure(table(curve.columns, curve.rows), caption, chosen, command)]
    if machine.size <= DRAWN:
        drawn = base64.b64encode(to_svg(machine).encode()).decode()
        alt = escape(f"A machine of {machine.size} states with the ways between them.")
        figures.append(
            Figure(
                f'<img src="data:image/svg+xml;base64,{drawn}" alt="{alt}">',
                f"The machine: {machine.size} states, and where each symbol leads from each.",
                limit,
                command.replace("automaton", "automaton --svg machine.svg"),
            )
        )
    return Section("Automaton", figures, f"{lead} {reading.about}".strip())
