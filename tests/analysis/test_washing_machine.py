"""A network that has learned the washing machine from a noisy log: its attractors are the machine's states."""

import pytest
import torch

from recurra.analysis.fields import basins, frame, plane_of_principal_components
from recurra.analysis.fixed_points import find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.data.machine import TRIGGERS, Machine, every_state, washing_machine
from recurra.recipes.base import Question
from recurra.recipes.catalogue import begin, find_recipe
from recurra.recipes.reader import override


@pytest.mark.slow
def test_attractors_are_the_states_and_triggers_lead_from_one_to_the_next() -> None:
    experiment = begin(override(find_recipe("washing-machine"), ["seed=1"]))
    trainer = experiment.trainer()
    for _ in trainer.events():
        pass
    model = trainer.evaluated.eval()
    (score,) = experiment.judge(model, Question()).scores.values()
    assert score["accuracy"] == 1.0

    F = StepMap(model.recurrent)
    vectors = {trigger: experiment.frozen_input(model, trigger).to(F.dtype) for trigger in TRIGGERS}
    triggers, _ = washing_machine(64, 60, seed=99)
    with torch.no_grad():
        visited = F.visited(model.recurrent, model.embed(triggers)).detach()
    found = find_fixed_points(F, vectors["none"], visited.flatten(0, 1))
    attractors = torch.stack([point.state for point in found.attractors])

    def settled(s: torch.Tensor) -> torch.Tensor:
        """The number of the attractor that each state ends at when nothing happens; −1: none of them."""
        for _ in range(3000):
            s = F(s, vectors["none"][None])
        distance = torch.cdist(s, attractors).min(1)
        return torch.where(distance.values < 1e-3, distance.indices, -1)

    # every state of the machine, from the visited states in which it is
    ends = settled(visited[:, -1])
    attractor_of: dict[tuple[str, int], set[int]] = {}
    for row, end in zip(triggers.tolist(), ends.tolist(), strict=True):
        machine = Machine()
        for trigger in row:
            machine = machine.after(TRIGGERS[trigger])
        attractor_of.setdefault(machine.memory, set()).add(end)
    memories = {machine.memory: machine for machine in every_state()}
    assert set(attractor_of) == set(memories)
    assert all(len(found) == 1 for found in attractor_of.values())
    number = {memory: next(iter(found)) for memory, found in attractor_of.items()}
    assert -1 not in number.values()
    assert len(set(number.values())) == len(memories) == 13

    said = experiment.says(model, F.outputs(attractors))
    for memory, machine in memories.items():
        assert said[number[memory]] == machine.name
        start = attractors[number[memory]][None]
        for trigger in TRIGGERS:
            after = settled(F(start, vectors[trigger][None]))
            assert int(after) == number[machine.after(trigger).memory], (machine, trigger)

    plane = plane_of_principal_components(visited.flatten(0, 1))
    low, high = frame(plane.project(visited.flatten(0, 1)))
    assert basins(F, vectors["none"], attractors, plane, low, high, size=200).share >= 0.99
