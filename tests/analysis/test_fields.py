"""Planes, fields and basins of maps that are known."""

import pytest
import torch

from recurra.analysis.fields import (
    basins,
    frame,
    grid,
    plane_of_principal_components,
    plane_of_units,
    plane_through,
    settle,
    trajectory,
    vector_field,
)
from recurra.errors import OptionError
from tests.analysis.dynamics import elman_with, lorenz, without_input

LOW, HIGH = torch.full((2,), -1.5, dtype=torch.float64), torch.full((2,), 1.5, dtype=torch.float64)


def test_places_and_states_are_opposites() -> None:
    random = torch.Generator().manual_seed(0)
    a, b, c = torch.randn(3, 5, dtype=torch.float64, generator=random)
    plane = plane_through(a, b, c)
    places = plane.project(torch.stack([a, b, c]))
    torch.testing.assert_close(plane.states(places), torch.stack([a, b, c]))
    assert float(plane.first @ plane.second) == pytest.approx(0, abs=1e-12)


def test_three_points_on_a_line_give_no_plane() -> None:
    a, b = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    with pytest.raises(OptionError, match="on one line"):
        plane_through(a, b, 2 * b)


def test_principal_components_are_the_directions_of_most_change() -> None:
    random = torch.Generator().manual_seed(0)
    visited = torch.randn(500, 3, dtype=torch.float64, generator=random) * torch.tensor([0.1, 5.0, 1.0])
    plane = plane_of_principal_components(visited)
    assert plane.first.abs().argmax() == 1
    assert plane.second.abs().argmax() == 2
    assert "%" in plane.names[0]


def test_the_field_is_one_step() -> None:
    _, F = elman_with(2 * torch.eye(2, dtype=torch.float64))
    plane = plane_of_units(F, 0, 1)
    field = vector_field(F, torch.zeros(1), plane, LOW, HIGH, size=7)
    torch.testing.assert_close(field.moves, torch.tanh(2 * field.places) - field.places)
    torch.testing.assert_close(field.speed, field.moves.square().sum(1) / 2)


@pytest.mark.parametrize("refine", [True, False])
def test_basins_of_bistable_units_are_the_quadrants(refine: bool) -> None:
    _, F = elman_with(2 * torch.eye(2, dtype=torch.float64))
    attractors = 0.9575 * torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    found = basins(
        F, torch.zeros(1), attractors, plane_of_units(F, 0, 1), LOW, HIGH, size=200, near=1e-2, refine=refine
    )
    assert found.share >= 0.99
    expected = (found.places[:, 0] < 0).long() * 2 + (found.places[:, 1] < 0).long()
    known = found.labels >= 0
    assert bool((found.labels[known] == expected[known]).all())


def test_a_state_that_reaches_no_known_attractor_has_no_label() -> None:
    _, F = elman_with(2 * torch.eye(2, dtype=torch.float64))
    one = 0.9575 * torch.ones(1, 2, dtype=torch.float64)
    found = basins(F, torch.zeros(1), one, plane_of_units(F, 0, 1), LOW, HIGH, size=20, steps=200, near=1e-2)
    assert found.share == pytest.approx(0.25)


def test_a_trajectory_starts_where_it_is_told() -> None:
    _, F = elman_with(torch.eye(2, dtype=torch.float64), "linear")
    path = trajectory(F, torch.ones(2, dtype=torch.float64), torch.zeros(4, 1)).states
    assert path.shape == (5, 2)
    assert torch.equal(path, torch.ones(5, 2, dtype=torch.float64))


def test_what_a_run_settles_into() -> None:
    _, still = elman_with(0.5 * torch.eye(2, dtype=torch.float64))
    assert settle(still, torch.zeros(1), torch.ones(2), steps=200).kind == "fixed point"
    _, growing = elman_with(2 * torch.eye(2, dtype=torch.float64), "linear")
    assert settle(growing, torch.zeros(1), torch.ones(2), steps=200).kind == "unbounded"
    from recurra.analysis.jacobians import StepMap

    wild = StepMap(without_input(lorenz, 1))
    assert settle(wild, torch.zeros(1), torch.tensor([1.0, 1.0, 20.0]), steps=1500).kind == "chaos"


def test_a_grid_and_a_frame() -> None:
    assert grid(LOW, HIGH, 3)[:4].tolist() == [[-1.5, -1.5], [0.0, -1.5], [1.5, -1.5], [-1.5, 0.0]]
    low, high = frame(torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
    assert (high - low).tolist() == pytest.approx([2.6, 2.6])
