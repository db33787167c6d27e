"""Three bits of memory, trained by the recipe: eight attractors, and between them every saddle that there must be."""

import pytest
import torch

from recurra.analysis.fixed_points import FixedPoints, find_fixed_points
from recurra.analysis.jacobians import StepMap
from recurra.tasks.catalogue import find_recipe


def search(cell: str, seed: int) -> tuple[FixedPoints, set[tuple[int, ...]]]:
    """The fixed points of a trained network, and what its attractors predict."""
    task = find_recipe("flip-flop").configure([f"model.cell={cell}", f"seed={seed}"])
    trainer = task.trainer()
    for _ in trainer.events():
        pass
    model = trainer.evaluated.eval()
    probe = task.probe(model, 140)
    F = StepMap(probe.layer)
    visited = F.visited(probe.x).flatten(0, 1).detach()
    found = find_fixed_points(F, torch.zeros(3), visited, starts=1024)
    with torch.no_grad():
        predicted = [
            model.output(point.state[: F.hidden_size].to(model.output.weight.dtype)).sign().int().tolist()
            for point in found.attractors
        ]
    return found, {tuple(bits) for bits in predicted}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_every_memory_is_an_attractor(cell: str, seed: int) -> None:
    found, memories = search(cell, seed)
    assert len(found.attractors) == 8
    assert len(memories) == 8
    assert max(point.residual for point in found.points) < 1e-12
    if cell != "lstm":
        assert [sum(point.index == k for point in found.points) for k in range(4)] == [8, 12, 6, 1]
        assert found.index_sum == 1
