"""A state space that is looked at again and again: the same numbers as the analyses give one by one."""

import pytest
import torch

import recurra as rc


@pytest.fixture(scope="module")
def space():
    torch.manual_seed(3)
    F = rc.analysis.StepMap(rc.Recurrent("gru", 2, 6, init=rc.spectral_radius(3.0)))
    runs = F.visited(torch.randn(4, 60, 2)).detach()
    held = {"zero": torch.zeros(2), "one": torch.ones(2)}
    return rc.analysis.StateSpace(
        F, runs, held.__getitem__, name=lambda h: ["up" if row[0] > 0 else "down" for row in h]
    )


def test_the_field_is_one_step(space):
    axes, field = space.axes(), space.field("one", size=9)
    place = field.places[17]
    s = axes.plane.states(place[None])
    after = axes.plane.project(space.F(s, torch.ones(1, 2, dtype=s.dtype)))
    assert torch.allclose(field.moves[17], after[0] - place)
    assert space.field("one", size=9) is field
    assert space.field("zero", size=9) is not field


def test_axes_are_orthonormal_and_hold_what_is_visited(space):
    for units in ((), (1, 4), (5, 0, 2)):
        axes = space.axes(units)
        n = len(axes.directions)
        assert torch.allclose(axes.directions @ axes.directions.T, torch.eye(n, dtype=torch.float64), atol=1e-9)
        seen = axes.project(space.runs.flatten(0, 1))
        assert seen.shape[1] == 3
        assert bool(((seen[:, :2] >= axes.low) & (seen[:, :2] <= axes.high)).all())
    flat = space.runs.flatten(0, 1)
    assert torch.allclose(space.axes((1, 4)).project(flat)[:, 0], flat[:, 1])


def test_a_dropped_state_moves_by_the_networks_step(space):
    drop = space.drop([0.2, -0.1], "one", steps=200)
    for before, after in zip(drop.states[:5], drop.states[1:6], strict=True):
        assert torch.allclose(space.F(before[None], torch.ones(1, 2, dtype=before.dtype))[0], after)
    assert len(drop.predictions) == 201
    assert drop.still is not None
    found = space.fixed_points("one")
    ends = [float((point.state - drop.states[-1]).norm()) for point in found.attractors]
    assert min(ends) < 1e-3
    assert f"stands still after {drop.still} steps" in str(drop)


def test_basins_end_at_attractors(space):
    basins, axes = space.basins("one", size=12), space.axes()
    assert basins is not None
    place = basins.places[30]
    s = axes.plane.states(place[None])
    for _ in range(2000):
        s = space.F(s, torch.ones(1, 2, dtype=s.dtype))
    end = space.fixed_points("one").attractors[int(basins.labels[30])]
    assert float((s[0] - end.state).norm()) < 1e-2
    assert space.numbers("one") == list(range(len(space.fixed_points("one").attractors)))


def test_what_makes_no_axes_is_refused(space):
    for units in ((0,), (0, 0), (0, 99), (0, 1, 2, 3)):
        with pytest.raises(rc.OptionError):
            space.axes(units)
    with pytest.raises(rc.OptionError, match="no plane"):
        rc.analysis.StateSpace(
            rc.analysis.StepMap(rc.Recurrent("elman", 1, 1)), torch.zeros(1, 1, 1), lambda name: torch.zeros(1)
        )
