"""Attractors and the vector field around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.attractors import extract_automaton
from recurra.analysis.fields import (
    Plane,
    basins,
    ends_of_plane,
    frame,
    plane_of_principal_components,
    trajectory,
    vector_field,
)
from recurra.analysis.fixed_points import find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.plots.dynamics import ENDINGS, Move, plot_automaton, plot_field, save_arrays
from recurra.report.gradients import NEAR, WARMUP
from recurra.report.page import Figure, Section, picture, table
from recurra.report.subject import Subject
from recurra.report.values import write_values
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
                picture(files / "automaton", f"States and the ways between them: {machine.row['summary']}"),
                f"The network {machine.row['summary']}",
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
    plot_field(arrows, subject.folder.explain / "field", paths=list(runs[:2]), title=title, endings=("svg",))
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


@dataclass(frozen=True)
class Machine:
    """The network as a state machine, with the plane that its states are seen in."""

    states: Tensor
    names: list[str]
    plane: Plane
    row: dict[str, Any]

    def name(self, s: Tensor) -> str | None:
        """Of a state that stands still, if it is one of the machine's."""
        distance = (self.states - s).norm(dim=1)
        closest = int(distance.argmin())
        return self.names[closest] if float(distance[closest]) < 1e-4 * (1 + float(s.norm())) else None


def write_automaton(
    folder: RunFolder,
    task: Task[Any],
    model: Any,
    probe: Probe,
    triggers: Triggers,
    endings: Sequence[str] = ENDINGS,
) -> Machine | None:
    """States and transitions by name, drawn as ways between attractors; `None` if it does not come to rest in three places."""
    F = StepMap(probe.layer)
    found = extract_automaton(F, triggers.x, triggers.x[0], F.pack(probe.layer.initial_state(1)).detach()[0])
    if len(found.states) < 3:
        return None
    after = found.after.tolist()
    names = task.name_states(model, F.outputs(found.states), after)
    plane = plane_of_principal_components(found.states)
    moves, rows = [], []
    for k, state in enumerate(found.states):
        for to in sorted(set(after[k]) - {k, -1}):
            fired = [t for t, then in enumerate(after[k]) if then == to]
            inputs = triggers.x[[fired[0]] + [0] * 40]
            moves.append(Move(trajectory(F, state, inputs), tuple(triggers.names[t] for t in fired)))
            rows.append({"from": names[k], "triggers": list(moves[-1].triggers), "to": names[to]})
    lost = int((found.after < 0).sum())
    row = {
        "states": names,
        "largest_eigenvalue": float(found.radii.max()),
        "transitions": rows,
        "lost": lost,
        "summary": f"as a state machine: {len(names)} states ({', '.join(names)}); {len(rows)} ways between them, "
        f"{lost} of {found.after.numel()} triggers lead to no attractor.",
    }
    title = "Attractors, and the ways between them"
    plot_automaton(plane, found.states, names, moves, folder.explain / "automaton", title, endings)
    save_arrays(folder.explain / "automaton.npz", states=found.states, after=found.after)
    write_values(folder, "automaton.json", {key: value for key, value in row.items() if key != "summary"})
    return Machine(found.states, names, plane, row)


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
    machine: Machine | None,
    endings: Sequence[str] = ENDINGS,
) -> dict[str, Any]:
    """Search for fixed points under a frozen input, and draw the field: pictures and numbers go to RUN/explain/."""
    F = StepMap(probe.layer)
    runs = F.visited(probe.layer, probe.x).detach()
    visited = runs.flatten(0, 1)
    also = machine.states if machine else visited[:0]
    if field:
        plane = machine.plane if machine else plane_of_principal_components(visited)
        low, high = frame(plane.project(torch.cat([visited, also])))
        also = torch.cat([also, ends_of_plane(F, x, plane, low, high)])
    found = find_fixed_points(F, x, visited, starts=starts, period=period, also=also)
    said = task.says(model, F.outputs(torch.stack([point.state for point in found.points]))) if found.points else []
    if machine is not None:
        said = [
            machine.name(point.state) or f"{word}, not visited" for word, point in zip(said, found.points, strict=True)
        ]
    rows = [
        {
            "says": said[k] if k < len(said) else "",
            "kind": str(point),
            "index": point.index,
            "residual": point.residual,
            "largest_eigenvalue": float(point.eigenvalues[0].abs()),
            "starts": point.starts,
            "is_far": point.is_far,
            "period": point.period,
        }
        for k, point in enumerate((*found.points, *found.cycles))
    ]
    states = [point.state for point in (*found.points, *found.cycles)]
    save_arrays(folder.explain / "fixed_points.npz", states=torch.stack(states) if states else torch.empty(0, F.size))
    row: dict[str, Any] = {
        "input": called,
        "points": rows,
        "slow_points": len(found.slow),
        "unconverged": found.unconverged,
        "starts": found.starts,
        "completeness": found.completeness,
        "line_attractor": found.line_attractor,
    }
    summary = f"input {called}: {found}"
    if field:
        arrows = vector_field(F, x, plane, low, high)
        colours = None
        if found.attractors:
            ends = torch.stack([point.state for point in found.attractors])
            colours = basins(F, x, ends, plane, low, high)
            row["basins"] = colours.share
            summary += f" {100 * colours.share:.1f} % of the plane ends at a known attractor."
            save_arrays(folder.explain / "basins.npz", places=colours.places, labels=colours.labels)
        title = f"Under the input {called}"
        names = [word for word, point in zip(said, found.points, strict=True) if point.kind == "attractor"]
        paths = [] if machine else list(runs[:2, :40])
        options: dict[str, Any] = {"points": found, "names": names, "endings": endings}
        plot_field(arrows, folder.explain / "field", paths=paths, title=title, **options)
        if colours is not None:
            plot_field(arrows, folder.explain / "basins", basins=colours, title=f"{title}: basins", **options)
        save_arrays(folder.explain / "field.npz", places=arrows.places, moves=arrows.moves, speed=arrows.speed)
    write_values(folder, "fixed_points.json", row)
    return row | {"summary": summary}
