"""Fields taken apart, in panels, through training and on walks; planes that pass through attractors."""

import pytest
import torch

import recurra as rc
from recurra.analysis.field_views import Walk, walk_states
from recurra.analysis.fields import basins, bend, plane_of_principal_components, vector_field
from recurra.analysis.jacobians import StepMap


def bits(count: int = 3) -> StepMap:
    """Units that each hold one bit: h ← tanh(2 h + 4 x)."""
    layer = rc.Recurrent("elman", count, count)
    with torch.no_grad():
        own = layer.stack[0][0]
        own.U.copy_(2 * torch.eye(count))
        own.W.copy_(4 * torch.eye(count))
        own.b.zero_()
    return StepMap(layer)


def test_parts_add_up_and_are_those_of_the_equation() -> None:
    F, x = bits(2), torch.tensor([0.25, 0.0])
    corner = torch.ones(2, dtype=torch.float64)
    parts = rc.analysis.split_field(F, x, rc.analysis.plane_of_units(F, 0, 1), -corner, corner, size=5)
    assert torch.allclose(parts.input, torch.tensor([1.0, 0.0]).double().expand(25, 2))  # W x
    assert torch.allclose(parts.state, 2 * parts.places)  # U h
    assert torch.allclose(parts.resultant, parts.input + parts.state)
    assert torch.allclose(torch.tanh(parts.resultant) - parts.places, parts.moves)


def test_parts_of_a_gate_by_name() -> None:
    layer = rc.Recurrent("gru", 2, 4)
    assert rc.analysis.split_field(layer, size=4, name="n").name == "n"
    with pytest.raises(rc.OptionError, match="one layer of a cell with one state"):
        rc.analysis.split_field(rc.Recurrent("lstm", 2, 4))


def test_a_bent_plane_passes_through_every_attractor_so_that_dot_and_basin_agree() -> None:
    F = bits(3)
    found = rc.find_fixed_points(F, torch.zeros(3), 2 * torch.rand(64, 3).double() - 1, starts=128)
    ends = torch.stack([point.state for point in found.attractors])
    assert len(ends) == 8
    plane = plane_of_principal_components(torch.tensor([[1.0, 0.1, 0.2], [0.0, 1.0, 0.3], [-1, -1, 0]]).double())
    bent = bend(plane, ends)
    assert torch.allclose(bent.states(bent.project(ends)), ends, atol=1e-9)
    assert torch.equal(bent.project(ends), plane.project(ends))

    def colours(chosen) -> list[int]:
        """Of a place at each dot."""
        found = []
        for place in plane.project(ends):
            spot = basins(F, torch.zeros(3), ends, chosen, place, place, size=1)
            found.append(int(spot.labels[0]))
        return found

    assert colours(bent) == list(range(8))
    assert colours(plane) != list(range(8))  # a flat slice colours some dots as another's


def test_a_panel_has_one_plane() -> None:
    panel = rc.analysis.field_panel(bits(2), {"rest": torch.zeros(2), "up": torch.ones(2)}, size=6)
    assert torch.equal(panel.fields[0].places, panel.fields[1].places)
    assert not torch.equal(panel.fields[0].moves, panel.fields[1].moves)


def walked() -> Walk:
    F = bits(2)
    up = torch.tensor([1.0, 0.0])
    visited = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]).double()
    return walk_states(
        F,
        [("up", up), ("rest", 0 * up), ("down", -up)],
        lambda h: ["high" if v > 0 else "low" for v in h[:, 0]],
        visited,
        visited[:0],
    )


def test_a_walk_follows_the_inputs() -> None:
    walk = walked()
    assert walk.predictions == ("low", "high", "high", "low")
    F = bits(2)
    assert torch.allclose(walk.states[1], F(F.start[None], torch.tensor([[1.0, 0.0]]).double())[0])


def test_a_film_has_a_frame_for_each_step(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    with image.open(walked().animate(tmp_path / "walk.gif")) as film:
        assert film.n_frames == 4
    with pytest.raises(rc.OptionError, match=r"an animation is a \.gif"):
        walked().animate(tmp_path / "walk.mp4")


def test_the_legend_counts_as_the_text_does() -> None:
    F = bits(2)
    found = rc.find_fixed_points(F, torch.zeros(2), 2 * torch.rand(64, 2).double() - 1, starts=64)
    assert len(found.attractors) == 4
    small = torch.full((2,), 0.5, dtype=torch.float64)
    plane = rc.analysis.plane_of_units(F, 0, 1)
    for corner, words in ((2 * small, "attractor (4)"), (small * torch.tensor([2.0, -0.0]) + 0.01, None)):
        figure = vector_field(F, torch.zeros(2), plane, -corner, corner, 9).plot(points=found)
        legend = figure.axes[0].get_legend()
        labels = [] if legend is None else [text.get_text() for text in legend.get_texts()]
        assert words in labels if words else "attractor (4)" not in labels


def test_forms_of_a_field() -> None:
    F = bits(2)
    field = rc.vector_field(F, size=8)
    assert any(each.get_gid() == "contours" for each in field.plot(form="contours").axes[0].collections)
    assert field.plot(form="surface").axes[0].name == "3d"
    with pytest.raises(rc.OptionError, match="form"):
        field.plot(form="hills")


def test_attractors_form_in_training(tmp_path) -> None:
    run = rc.train(
        "tomita", steps=20, hidden_size=4, out=tmp_path / "run", progress="none", **{"training.snapshots": 2}
    )
    found = run.formation("1", steps=[0, *run.snapshots])
    assert found.steps == (0, 10, 20)
    assert len(found.attractors) == len(found.fields) == 3
    assert torch.equal(found.fields[0].places, found.fields[2].places)
    assert not torch.equal(found.fields[0].moves, found.fields[2].moves)
    plain = rc.train("tomita", steps=2, hidden_size=4, out=tmp_path / "plain", progress="none")
    with pytest.raises(rc.OptionError, match=r"training\.snapshots"):
        plain.formation()
