"""A run's fields under every trigger, through training, and with a state that moves under triggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from recurra.analysis.field_views import FieldPanel, Formation, SplitField, Walk, field_panel, split_field, walk_states
from recurra.analysis.fields import frame, plane_of_principal_components, vector_field
from recurra.analysis.fixed_points import find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.errors import OptionError
from recurra.tasks.dynamics import frozen_input, machine_of, triggers_of, visited_states

STARTS = 96
"""Of the search for attractors at each step of a training: one of many, so it is short."""


def _marked(task: Any, model: Any, F: StepMap) -> tuple[torch.Tensor, tuple[str, ...]]:
    """Attractors of a state machine by name; none of another network."""
    machine = machine_of(task, model)
    return (torch.zeros(0, F.size, dtype=F.dtype), ()) if machine is None else (machine.states, tuple(machine.names))


def panel(task: Any, model: Any, inputs: Sequence[str] = ()) -> FieldPanel:
    """The field under every trigger, or under inputs by name."""
    F, runs, _ = visited_states(task, model, "fields")
    triggers = triggers_of(task, model)
    names = tuple(inputs) or (triggers.names if triggers is not None else ("zero",))
    held = {name: frozen_input(task, model, name)[1] for name in names}
    return field_panel(F, held, runs.flatten(0, 1), marked=_marked(task, model, F)[0])


def parts(task: Any, model: Any, input: str | None) -> SplitField:
    """What the input and the state add, in the plane of the attractors, or of visited states."""
    F, runs, _ = visited_states(task, model, "split_field")
    marked, seen = _marked(task, model, F)[0], runs.flatten(0, 1)
    plane = plane_of_principal_components(marked if len(marked) > 2 else seen)
    low, high = frame(plane.project(torch.cat([seen, marked])))
    return split_field(F, frozen_input(task, model, input)[1], plane, low, high)


def formation(run: Any, model: Any, input: str | None, steps: Sequence[int], size: int = 17) -> Formation:
    """Field and attractors at the snapshots of a run, in the plane of the trained network."""
    task = run.task
    if not steps:
        raise OptionError(
            "this run kept no weights on the way. Train with training.snapshots=12 to see attractors form."
        )
    F, runs, _ = visited_states(task, model, "formation")
    called, _ = frozen_input(task, model, input)
    marked, _ = _marked(task, model, F)
    seen = runs.flatten(0, 1)
    plane = plane_of_principal_components(marked if len(marked) > 2 else seen)
    low, high = frame(plane.project(torch.cat([seen, marked])))
    fields, points = [], []
    for step in steps:
        then = run.at(step).model.cpu()
        own, visited, _ = visited_states(task, then, "formation")
        x = frozen_input(task, then, called)[1]
        fields.append(vector_field(own, x, plane, low, high, size))
        points.append(find_fixed_points(own, x, visited.flatten(0, 1), starts=STARTS, iterations=60))
    return Formation(called, tuple(steps), tuple(fields), tuple(points))


def walk(task: Any, model: Any, inputs: Sequence[str]) -> Walk:
    """The state from the start along inputs by name."""
    F, runs, name = visited_states(task, model, "walk")
    marked, names = _marked(task, model, F)
    held = [(each, frozen_input(task, model, each)[1]) for each in inputs]
    return walk_states(F, held, name, runs.flatten(0, 1), marked, names)
