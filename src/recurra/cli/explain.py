from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from torch import Tensor

    from recurra.analysis.fields import Plane
    from recurra.recipes.base import Experiment, Probe, Triggers
    from recurra.runs.folder import RunFolder


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    gradients: Annotated[
        bool, typer.Option("--gradients", help="How far gradients reach back, and the eigenvalues behind it.")
    ] = False,
    fixed_points: Annotated[
        bool, typer.Option("--fixed-points", help="Where the network stands still under a frozen input.")
    ] = False,
    field: Annotated[bool, typer.Option("--field", help="The vector field and the basins in a plane.")] = False,
    table: Annotated[str | None, typer.Option(help="The cell at work on this text, step by step.")] = None,
    frozen: Annotated[
        str | None,
        typer.Option(
            "--input", help="The frozen input: a symbol or a trigger by name, or zero. Else a trigger of rest, or zero."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=4, help="How many steps back gradients are followed.")] = 100,
    starts: Annotated[int, typer.Option(min=1, help="Starts of the search for fixed points.")] = 1024,
    period: Annotated[int, typer.Option(min=1, help="Also search for cycles up to this period.")] = 1,
    as_json: AsJson = False,
) -> None:
    """What a trained network does: gradients over time, fixed points, vector field, the table. Pictures go to RUN/explain/."""
    from recurra.recipes.catalogue import open_run

    folder, experiment, model = open_run(run)
    if not (gradients or fixed_points or field or table is not None):
        gradients = fixed_points = True
    found: dict[str, Any] = {"run": str(run)}
    if gradients or fixed_points or field:
        probe = experiment.probe(model, steps + 40)
    if gradients:
        found["gradients"] = _gradients(folder, probe, steps)
    if fixed_points or field:
        triggers = experiment.triggers(model)
        frozen = frozen or (triggers.names[0] if triggers else "zero")
        x = experiment.frozen_input(model, frozen)
        machine = None
        if triggers is not None and field:
            machine = _automaton(folder, experiment, model, probe, triggers)
            found["automaton"] = (
                machine.row if machine else {"summary": "as a state machine: it comes to rest nowhere."}
            )
        found["fixed_points"] = _points(folder, experiment, model, probe, x, frozen, starts, period, field, machine)
    if table is not None:
        found["table"] = _table(folder, experiment, model, table, not as_json)
    if as_json:
        print_json(found)
        return
    for part in ("gradients", "automaton", "fixed_points"):
        if part in found:
            print(found[part]["summary"])
    print(f"pictures and data: {folder.explain}")


def _write(folder: RunFolder, name: str, values: dict[str, Any]) -> None:
    from recurra.runs.disk import replace_file

    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / name, (json.dumps(values, indent=2) + "\n").encode())


def _gradients(folder: RunFolder, probe: Probe, steps: int) -> dict[str, Any]:
    from dataclasses import asdict

    import torch

    from recurra.analysis.gradients import Verdict, gradient_flow, spectrum
    from recurra.analysis.plots import plot_gradients, plot_spectrum, save_arrays
    from recurra.analysis.scalar_case import scalar_page
    from recurra.runs.disk import replace_file

    flow = gradient_flow(probe.layer, probe.x[0], steps=steps)
    matrices = {
        f"layer {k} U.{name}" if len(probe.layer.stack) > 1 else f"U.{name}": spectrum(directions[0].matrix(name))
        for k, directions in enumerate(probe.layer.stack)
        for name in probe.layer.cell.graph.matrices
    }
    plot_gradients(flow, folder.explain / "gradients")
    if matrices:
        plot_spectrum(matrices, folder.explain / "eigenvalues")
    replace_file(folder.explain / "scalar.html", scalar_page().encode())
    save_arrays(
        folder.explain / "gradients.npz",
        lags=torch.tensor(flow.lags),
        state=flow.state,
        singular_values=flow.singular_values,
        units=flow.units,
        lyapunov=flow.lyapunov,
        **{f"loss {name}": values for name, values in flow.loss.items()},
        **{f"carried {name}": values for name, values in flow.carried.items()},
    )
    kinds: dict[str, int] = {}
    for unit in flow.units.tolist():
        kind = Verdict(unit, steps).kind
        kinds[kind] = kinds.get(kind, 0) + 1
    largest = float(flow.lyapunov[0])
    row = {
        "verdict": str(flow.verdict),
        "slope": flow.verdict.slope,
        "units": kinds,
        "largest_lyapunov_exponent": largest,
        "carried": {name: str(flow.verdict_on_carried(name)) for name in flow.carried},
        "factors": [asdict(factor) for factor in flow.factors],
        "spectral_radius": {name: one.radius for name, one in matrices.items()},
    }
    _write(folder, "gradients.json", row)
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return row | {
        "summary": f"the gradient {flow.verdict}. Units: {said}. Largest Lyapunov exponent {largest:.4g} a step."
    }


@dataclass(frozen=True)
class _Machine:
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


def _automaton(
    folder: RunFolder, experiment: Experiment[Any], model: Any, probe: Probe, triggers: Triggers
) -> _Machine | None:
    """States and transitions by name, drawn as ways between attractors; `None` if it does not come to rest in three places."""
    from recurra.analysis.automata.attractors import extract_automaton
    from recurra.analysis.fields import plane_of_principal_components, trajectory
    from recurra.analysis.jacobians import StepMap
    from recurra.analysis.plots import Move, plot_automaton, save_arrays

    F = StepMap(probe.layer)
    found = extract_automaton(F, triggers.x, triggers.x[0], F.pack(probe.layer.initial_state(1)).detach()[0])
    if len(found.states) < 3:
        return None
    after = found.after.tolist()
    names = experiment.name_states(model, F.outputs(found.states), after)
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
    plot_automaton(
        plane, found.states, names, moves, folder.explain / "automaton", "Attractors, and the ways between them"
    )
    save_arrays(folder.explain / "automaton.npz", states=found.states, after=found.after)
    _write(folder, "automaton.json", {key: value for key, value in row.items() if key != "summary"})
    return _Machine(found.states, names, plane, row)


def _points(
    folder: RunFolder,
    experiment: Experiment[Any],
    model: Any,
    probe: Probe,
    x: Any,
    called: str,
    starts: int,
    period: int,
    field: bool,
    machine: _Machine | None,
) -> dict[str, Any]:
    import torch

    from recurra.analysis.fields import basins, ends_of_plane, frame, plane_of_principal_components, vector_field
    from recurra.analysis.fixed_points import find_fixed_points
    from recurra.analysis.jacobians import StepMap
    from recurra.analysis.plots import plot_field, save_arrays

    F = StepMap(probe.layer)
    runs = F.visited(probe.layer, probe.x).detach()
    visited = runs.flatten(0, 1)
    also = machine.states if machine else visited[:0]
    if field:
        plane = machine.plane if machine else plane_of_principal_components(visited)
        low, high = frame(plane.project(torch.cat([visited, also])))
        also = torch.cat([also, ends_of_plane(F, x, plane, low, high)])
    found = find_fixed_points(F, x, visited, starts=starts, period=period, also=also)
    said = (
        experiment.says(model, F.outputs(torch.stack([point.state for point in found.points]))) if found.points else []
    )
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
        plot_field(arrows, folder.explain / "field", points=found, names=names, paths=paths, title=title)
        if colours is not None:
            plot_field(
                arrows, folder.explain / "basins", points=found, names=names, basins=colours, title=f"{title}: basins"
            )
        save_arrays(folder.explain / "field.npz", places=arrows.places, moves=arrows.moves, speed=arrows.speed)
    _write(folder, "fixed_points.json", row)
    return row | {"summary": summary}


def _table(folder: RunFolder, experiment: Experiment[Any], model: Any, text: str, show: bool) -> dict[str, Any]:
    from recurra.analysis.trace_table import trace_table
    from recurra.errors import OptionError
    from recurra.recipes.language import Language
    from recurra.runs.disk import replace_file

    if not isinstance(experiment, Language):
        raise OptionError("--table reads a text, and this run is no language model.")
    made = trace_table(model, experiment.symbols_of(text), experiment.symbol_names)
    folder.explain.mkdir(exist_ok=True)
    replace_file(folder.explain / "table.csv", made.to_csv().encode())
    replace_file(folder.explain / "table.html", made.to_html(text).encode())
    if show:
        print_table("", made.COLUMNS, made.cells(most=3))
    return {"rows": [dict(zip(made.COLUMNS, cells, strict=True)) for cells in made.cells(digits=6, most=0)]}
