"""Attractors and the vector field around them."""

from __future__ import annotations

import shlex

from recurra.analysis.portrait import Portrait
from recurra.report.page import Figure, Section, picture, table
from recurra.report.parts import keep_field
from recurra.report.subject import Subject, capital

SEARCHED = 64
"""In a report, networks with a state larger than this are left to come to rest; smaller ones are searched for fixed points."""


def attractors_section(subject: Subject) -> Section:
    run = subject.run
    if run.state_size > SEARCHED and not run.has_triggers:
        return _at_rest(subject)
    starts = subject.starts or 128
    results = keep_field(run, None, starts, endings=("svg",))
    found, machine = results["fixed_points"], results.get("automaton")
    assert isinstance(found, Portrait)
    held = found.points.input
    command = subject.command(f"explain RUN --field --starts {starts} --input {shlex.quote(held)}")
    files, figures = run.folder.explain, []
    if machine is not None:
        figures.append(
            Figure(
                picture(files / "automaton", f"States and the transitions between them: {machine}"),
                f"The network {machine}",
                "States are where the network rests when nothing happens; triggers that come faster than it settles may act "
                "otherwise.",
                command,
            )
        )
    figures.append(
        Figure(
            picture(files / "field", f"Arrows of one step in a plane of the state space. {found}"),
            f"Where the state moves in one step while the input is held at {held}; marks are fixed points by kind.",
            f"A plane through a space of {run.state_size} dimensions: arrows that seem to cross do not, and points outside the "
            "plane are projected onto it.",
            command,
        )
    )
    if found.basins is not None:
        figures.append(
            Figure(
                picture(files / "basins", "The plane coloured by the attractor that each place ends at."),
                f"Which attractor each place ends at; {100 * found.basins.share:.0f} % end at a known one.",
                "Starts in this plane only; the rest of the space may have attractors that are not seen here.",
                command,
            )
        )
    return Section("Attractors and field", figures, capital(str(found)))


def _at_rest(subject: Subject) -> Section:
    """Of a large network: where states that it visits come to when they are left alone, and the field among them."""
    run = subject.run
    found = run.resting_places()
    found.plot(run.folder.explain / "field", endings=("svg",))
    zero = " The zero vector is no input of the data: it stands for the network left to itself."
    rows = found.table()
    figures = [
        Figure(
            picture(run.folder.explain / "field", f"Arrows of one step in a plane of the state space. {found}"),
            f"Where the state moves in one step while the input is held at {found.input}; the lines are states that it visits.",
            f"A plane through a space of {run.state_size} dimensions: arrows that seem to cross do not."
            + (zero if found.input == "zero" else ""),
            subject.command("explain RUN"),
        ),
        Figure(
            table(rows.columns, rows.rows),
            "Where visited states come to rest.",
            "Only attractors that these states reach; saddles and others need the full search, which takes minutes in a "
            "network of this size.",
            subject.command("explain RUN --fixed-points"),
        ),
    ]
    return Section("Attractors and field", figures, str(found))
