"""Attractors and the vector field around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.attractors import Automaton, extract_automaton
from recurra.analysis.fields import basins, ends_of_plane, frame, plane_of_principal_components, vector_field
from recurra.analysis.fixed_points import find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.plots.figure import ENDINGS
from recurra.report.gradients import NEAR, WARMUP
from recurra.report.page import Figure, Section, picture, table
from recurra.report.subject import Subject
from recurra.report.values import save_arrays, write_values
from recurra.runs.folder import RunFolder
from recurra.tasks.task import Probe, Task, Triggers

SEARCHED = 64
"""In a report, networks with a state larger than this are left to come to rest; smaller ones are searched for fixed points."""
LEFT_ALONE, RUNS = 500, 64


def attractors_section(subject: Subject) -> Section:
    task, model = subject.task, subject.model
    probe = subject.probe(NEAR + WARMUP)
    F = StepMap(probe.layer)
    triggers = task.triggers(model)
    called = triggers.names[0] if triggers else "zero"
    x = task.frozen_input(model, called)
    if F.size > SEARCHED and triggers is None:
        return _at_rest(subject, F, probe, x, called)
    starts = subject.starts or 128
    machine = write_automaton(subject.folder, task, model, probe, triggers, ("svg",)) if triggers else None
    found = write_points(subject.folder, task, model, probe, x, called, starts, 1, True, machine, ("svg",))
    command = subject.command(f"explain RUN --field --starts {starts} --input {called}")
    files, figures = subject.folder.explain, []
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
            picture(files / "field", f"Arrows of one step in a plane of the state space. {found['summary']}"),
            f"Where the state moves in one step while the input is held at {called}; marks are fixed points by kind.",
            "A plane through a space of "
            f"{F.size} dimensions: arrows that seem to cross do not, and points outside the plane are projected onto it.",
            command,
        )
    )
    if "basins" in found:
        figures.append(
            Figure(
                picture(files / "basins", "The plane coloured by the attractor that each place ends at."),
                f"Which attractor each place ends at; {100 * found['basins']:.0f} % end at a known one.",
                "Starts in this plane only; the rest of the space may have attractors that are not seen here.",
                command,
            )
        )
    return Section("Attractors and field", figures, found["summary"][0].upper() + found["summary"][1:])


@torch.no_grad()
def _at_rest(subject: Subject, F: StepMap, probe: Probe, x: Tensor, called: str) -> Section:
    """Of a large network: where states that it visits come to when they are left alone, and the field among them."""
    runs = F.visited(probe.layer, probe.x).detach()
    s = runs[:, -max(1, RUNS // len(runs)) :].flatten(0, 1)
    for _ in range(LEFT_ALONE):
        s = F(s, x.to(F.dtype)[None])
    moves = (F(s, x.to(F.dtype)[None]) - s).norm(dim=1)
    still = moves < 1e-4 * (1 + s.norm(dim=1))
    ends, counts = (
        (s[still] / 0.05).round().unique(dim=0, return_counts=True) if bool(still.any()) else (s[:0], s[:0, 0])
    )
    plane = plane_of_principal_components(runs.flatten(0, 1))
    low, high = frame(plane.project(torch.cat([runs.flatten(0, 1), s[still]])))
    arrows = vector_field(F, x, plane, low, high)
    title = f"Under the input {called}"
    arrows.plot(subject.folder.explain / "field", paths=list(runs[:2]), title=title, endings=("svg",))
    said = subject.task.says(subject.model, F.outputs(ends * 0.05)) if len(ends) else []
    rows = [[word or "—", str(int(count))] for word, count in zip(said, counts.tolist(), strict=True)]
    rows.append(["still moving", str(int((~still).sum()))])
    lead = (
        f"{len(s)} states that the network visits were left alone for {LEFT_ALONE} steps under the input {called}: "
        + (f"{int(still.sum())} come to rest, at {len(ends)} place(s)." if len(ends) else "none of them comes to rest.")
    )
    full = subject.command("explain RUN --fixed-points")
    return Section(
        "Attractors and field",
        [
            Figure(
                picture(subject.folder.explain / "field", f"Arrows of one step in a plane of the state space. {lead}"),
                f"Where the state moves in one step while the input is held at {called}; the lines are states that it visits.",
                f"A plane through a space of {F.size} dimensions: arrows that seem to cross do not."
                + (
                    " The zero vector is no input of the data: it stands for the network left to itself."
                    if called == "zero"
                    else ""
                ),
                subject.command("explain RUN"),
            ),
            Figure(
                table(["what it says there", "states that end there"], rows),
                "Where visited states come to rest.",
                "Only attractors that these states reach; saddles and others need the full search, which takes minutes in a "
                "network of this size.",
                full,
            ),
        ],
        lead,
    )


def write_automaton(
    folder: RunFolder,
    task: Task[Any],
    model: Any,
    probe: Probe,
    triggers: Triggers,
    endings: Sequence[str] = ENDINGS,
) -> Automaton | None:
    """States and transitions by name, drawn as paths between attractors; `None` if it does not come to rest in three places."""
    F = StepMap(probe.layer)
    found = extract_automaton(F, triggers.x, triggers.x[0], F.pack(probe.layer.initial_state(1)).detach()[0])
    if len(found.states) < 3:
        return None
    found = found.named(task.name_states(model, F.outputs(found.states), found.after.tolist()), triggers.names)
    found.plot(folder.explain / "automaton", endings=endings)
    save_arrays(folder.explain / "automaton.npz", found.arrays())
    write_values(folder, "automaton.json", found.to_json())
    return found


def write_points(
    folder: RunFolder,
    task: Task[Any],
    model: Any,
    probe: Probe,
    x: Any,
    called: str,
    starts: int,
    period: int,
    field: bool,
    machine: Automaton | None,
    endings: Sequence[str] = ENDINGS,
) -> dict[str, Any]:
    """Search for fixed points under a frozen input, and draw the field: pictures and numbers go to RUN/explain/."""
    F = StepMap(probe.layer)
    runs = F.visited(probe.layer, probe.x).detach()
    visited = runs.flatten(0, 1)
    also = machine.states if machine else visited[:0]
    if field:
        plane = plane_of_principal_components(machine.states if machine else visited)
        low, high = frame(plane.project(torch.cat([visited, also])))
        also = torch.cat([also, ends_of_plane(F, x, plane, low, high)])
    found = find_fixed_points(F, x, visited, starts=starts, period=period, also=also)
    names = task.says(model, F.outputs(torch.stack([point.state for point in found.points]))) if found.points else []
    if machine is not None:
        names = [
            machine.name_of(point.state) or f"{word}, not visited"
            for word, point in zip(names, found.points, strict=True)
        ]
    found = replace(found, input=called, names=names)
    save_arrays(folder.explain / "fixed_points.npz", found.arrays())
    row = found.to_json()
    if field:
        arrows, title = vector_field(F, x, plane, low, high), f"Under the input {called}"
        paths = [] if machine else list(runs[:2, :40])
        arrows.plot(folder.explain / "field", points=found, paths=paths, title=title, endings=endings)
        save_arrays(folder.explain / "field.npz", arrows.arrays())
        if found.attractors:
            ends = torch.stack([point.state for point in found.attractors])
            colours = basins(F, x, ends, plane, low, high)
            row |= {"basins": colours.share, "summary": f"{found} {colours}"}
            options: dict[str, Any] = {"field": arrows, "points": found, "endings": endings}
            colours.plot(folder.explain / "basins", title=f"{title}: basins", **options)
            save_arrays(folder.explain / "basins.npz", colours.arrays())
    write_values(folder, "fixed_points.json", row)
    return row
