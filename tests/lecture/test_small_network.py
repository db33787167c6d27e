"""Cells with one or two units: every number by name, and the portrait of what the equations say."""

import pytest
import torch

import recurra as rc


@pytest.mark.parametrize(
    "name", ["elman", "jordan", "lstm_norm", "skip", "clockwork", "lru", "mingru", "antisymmetric"]
)
def test_a_cell_has_a_portrait(name):
    for units in (1, 2):
        net = rc.lecture.SmallNetwork(rc.CATALOGUE[name], units)
        found = net.portrait()
        assert (found.field is None) == (net.F.size == 1)
        assert len(found.to_json()["path"]) > 50
        graph, H = rc.CATALOGUE[name].graph, units
        count = 2 * H * len(graph.drives) + H * H * len(graph.matrices) + H * len(graph.parameters)
        assert len(net.weights) == count


def test_numbers_are_set_by_name():
    net = rc.lecture.SmallNetwork(rc.find_cell("elman"), 2, seed=5)
    net.set({"U.h[0,0]": 2.0, "U.h[0,1]": 0.0, "U.h[1,0]": 0.0, "U.h[1,1]": 0.3, "b.h[0]": 0.0, "b.h[1]": 0.0})
    s = torch.tensor([[0.5, -0.4]], dtype=torch.float64)
    assert torch.allclose(net.F(s, torch.zeros(1, 1, dtype=torch.float64)), torch.tanh(s * torch.tensor([2.0, 0.3])))
    kinds = sorted(point.kind for point in net.portrait().points.points)
    assert kinds == ["attractor", "attractor", "saddle"]  # h = tanh(2h) has three solutions, h = tanh(0.3h) one
    with pytest.raises(rc.OptionError, match=r"no number 'U.x\[0,0\]'"):
        net.set({"U.x[0,0]": 1.0})


@pytest.mark.parametrize(("name", "form"), [("antisymmetric", -1), ("orthogonal", 1)])
def test_a_form_is_kept(name, form):
    net = rc.lecture.SmallNetwork(rc.find_cell(name), 2)
    net.set({"U.h[0,1]": 1.7})
    U = net.F.layers[0].matrices["h"]
    assert torch.allclose(U, -U.T) if form < 0 else torch.allclose(U @ U.T, torch.eye(2, dtype=U.dtype))


def test_a_cell_that_looks_far_back_is_refused():
    with pytest.raises(rc.OptionError, match="at most 64 are looked at"):
        rc.lecture.SmallNetwork(rc.find_cell("skip(d=5000)"), 2)
    with pytest.raises(rc.OptionError, match="one unit or two"):
        rc.lecture.SmallNetwork(rc.find_cell("gru"), 3)
