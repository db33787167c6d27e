"""State dicts carry names: weights are loaded by them, whatever the order of a cell's lines."""

import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import recurra as rc
from recurra.cells.stored import equations_digest, restore_cell, store_cell
from recurra.layers.names import KEY, without_names
from recurra.runs.checkpoint import restore_weights


@rc.cell
def one(x, U, h, c):
    z = rc.sigmoid(x.z + U.z(h))
    n = rc.tanh(x.n + U.n(c))
    return z * n, c + n


@rc.cell
def swapped(x, U, h, c):
    n = rc.tanh(x.n + U.n(c))
    z = rc.sigmoid(U.z(h) + x.z)
    return z * n, c + n


@rc.cell
def renamed(x, U, h, c):
    z = rc.sigmoid(x.z + U.z(h))
    m = rc.tanh(x.m + U.m(c))
    return z * m, c + m


@rc.cell
def changed(x, U, h, c):
    z = rc.sigmoid(x.z + U.z(h))
    n = rc.sin(x.n + U.n(c))
    return z * n, c + n


@rc.cell
def turned(x, U, c, h):
    n = rc.tanh(x.n + U.n(c))
    z = rc.sigmoid(x.z + U.z(h))
    return c + n, z * n


def layer(cell, **options):
    made = rc.Recurrent(cell, 3, 4, layers=2, engine="eager", **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return made


X = torch.randn(2, 6, 3)


@pytest.mark.parametrize("way", ["memory", "safetensors", "torch"])
def test_a_state_dict_is_loaded_by_name_whatever_the_order_of_lines(way, tmp_path):
    old, new = layer(one, learn_initial=True), layer(swapped, learn_initial=True)
    assert old.cell.graph.drives != new.cell.graph.drives
    state = old.state_dict()
    if way == "safetensors":
        save_file(state, tmp_path / "w.safetensors")
        state = load_file(tmp_path / "w.safetensors")
    if way == "torch":
        torch.save(state, tmp_path / "w.pt")
        state = torch.load(tmp_path / "w.pt", weights_only=True)
    kept = {name: value.clone() for name, value in state.items()}
    new.load_state_dict(state)
    torch.testing.assert_close(new(X).outputs, old(X).outputs)
    assert all(torch.equal(value, kept[name]) for name, value in state.items())  # the caller's is left as it was


def test_assigned_weights_go_by_name_too():
    old, new = layer(one), layer(swapped)
    new.load_state_dict(old.state_dict(), assign=True)
    torch.testing.assert_close(new(X).outputs, old(X).outputs)


def test_learned_initial_states_go_by_name():
    old, new = rc.Recurrent(one, 3, 4, learn_initial=True), rc.Recurrent(turned, 3, 4, learn_initial=True)
    with torch.no_grad():
        for parameter in old.stack[0][0].initial:
            parameter.normal_()
    with pytest.warns(UserWarning, match="whose equations are not those of cell 'turned'"):  # another output
        new.load_state_dict(old.state_dict())
    h, c = old.stack[0][0].initial
    assert torch.equal(new.stack[0][0].initial[0], c)
    assert torch.equal(new.stack[0][0].initial[1], h)


def test_a_state_dict_of_before_is_taken_in_its_order():
    old, new = layer(one), layer(one)
    new.load_state_dict(without_names(old.state_dict()))
    assert torch.equal(new(X).outputs, old(X).outputs)


def test_other_names_are_refused_with_both():
    old, new = layer(one), layer(renamed)
    before = {name: value.clone() for name, value in new.state_dict().items()}
    message = r"layers\.0\.0 has weights of cell 'one' with the x\.NAME of z, n; cell 'renamed' has x\.NAME of z, m\. Load them"
    with pytest.raises(rc.ShapeError, match=message) as caught:
        new.load_state_dict(old.state_dict())
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in new.state_dict().items())
    with pytest.raises(rc.RunError, match=r"runs/a is of another model: .* cell 'renamed' has"):
        restore_weights(new, old.state_dict(), "runs/a")


def test_other_equations_of_the_same_names_are_loaded_with_a_word():
    old, new = layer(one), layer(changed)
    with pytest.warns(UserWarning, match="has weights of cell 'one', whose equations are not those of cell 'changed'"):
        new.load_state_dict(old.state_dict())
    assert torch.equal(new.stack[0][0].W, old.stack[0][0].W)


def test_damaged_names_are_refused():
    state = layer(one).state_dict()
    state[f"layers.0.0.{KEY}"] = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(rc.ShapeError, match=r"layers\.0\.0\._extra_state does not hold the names of a cell"):
        layer(one).load_state_dict(state)


def test_masks_and_the_order_of_lines_are_no_other_equations():
    digest = equations_digest(one.graph)
    for same in (swapped, rc.zoneout(one, 0.1), rc.recurrent_dropout(one, 0.3), restore_cell(store_cell(one))):
        assert equations_digest(same.graph) == digest, same
    for other in (renamed, changed, turned):
        assert equations_digest(other.graph) != digest
    leaky = rc.find_cell("leaky")
    assert equations_digest(leaky.graph) != equations_digest(leaky(alpha=0.5).graph)


def test_parametrized_weights_keep_their_order_or_say_so():
    old, same, other = layer(one), layer(one), layer(swapped)
    for each in (old, same, other):
        nn.utils.parametrizations.weight_norm(each.stack[0][0], "W")
    same.load_state_dict(old.state_dict())
    torch.testing.assert_close(same(X).outputs, old(X).outputs)
    with pytest.raises(
        rc.ShapeError, match=r"parametrized weights in the order z, n; cell 'swapped' has n, z\. Write its lines"
    ):
        other.load_state_dict(old.state_dict())


def test_a_model_around_it_and_functions_of_torch_take_the_state_dict():
    model = nn.Sequential(nn.Linear(3, 3), layer(one))
    again = nn.Sequential(nn.Linear(3, 3), layer(swapped))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(X).outputs, model(X).outputs)
    weights = {name: value * 0 for name, value in without_names(model.state_dict()).items()}
    assert not torch.func.functional_call(model, weights, X).outputs.any()
    torch.testing.assert_close(torch.func.functional_call(model, model.state_dict(), X).outputs, model(X).outputs)


def test_a_tree_carries_names_too():
    old, new = (rc.Tree(3, 4, composition="sum", cell=cell) for cell in (one, swapped))
    new.load_state_dict(old.state_dict())
    forest = rc.data.make_forest([[-1, 0, 0]], [[0, 1, 2]])
    x = torch.randn(3, 3)
    torch.testing.assert_close(new(x, forest), old(x, forest))


# -- the weights of one gate --------------------------------------------------------------------------------------------


def test_the_weights_of_one_name_are_a_view():
    gates = rc.Recurrent("lstm", 3, 4, layers=2, bidirectional=True)
    direction = gates.stack[1][1]
    assert gates.weight("W.f", layer=1, direction=1).shape == (4, 8)
    assert gates.weight("U.f", layer=1, direction=1).shape == (4, 4)
    with torch.no_grad():
        gates.weight("b.f", layer=1, direction=1).fill_(7.0)
    k = direction.cell.graph.drives.index("f")
    assert (direction.b[4 * k : 4 * k + 4] == 7).all()
    assert (direction.b == 7).sum() == 4
    gates.weight("U.f", layer=1, direction=1).square().sum().backward()
    assert direction.U.grad is not None
    assert direction.U.grad.abs().sum(1).count_nonzero() == 4


@pytest.mark.parametrize("name", ["U.forget", "f", "V.f", "U", ""])
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(name):
    with pytest.raises(rc.OptionError, match=rf"cell 'lstm' has no weight '{name}'\..*Known: .*U\.f.*W\.o") as caught:
        rc.Recurrent("lstm", 3, 4).weight(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(rc.OptionError, match=r"no layer=2, direction=0 in 1 layer\(s\) and 1 direction"):
        rc.Recurrent("lstm", 3, 4).weight("U.f", layer=2)


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_a_frozen_gate_stays_while_the_others_learn(engine):
    gates = rc.Recurrent("gru", 3, 4, engine=engine)
    before = {name: gates.weight(name).detach().clone() for name in ("W.z", "U.z", "b.z", "U.n", "b.n")}
    gates.freeze("W.z", "U.z", "b.z")
    optimiser = torch.optim.AdamW(gates.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        gates(X).outputs.square().sum().backward()
        optimiser.step()
    for name, value in before.items():
        assert torch.equal(gates.weight(name), value) == name.endswith(".z"), name
    nn.utils.parametrize.remove_parametrizations(gates.stack[0][0], "U")
    torch.testing.assert_close(gates.weight("U.z"), before["U.z"])


class Symmetric(nn.Module):
    def forward(self, matrix):
        return (matrix + matrix.mT) / 2


def test_one_gate_is_parametrized():
    gates = rc.Recurrent("gru", 3, 4)
    gates.parametrize("U.n", Symmetric())
    assert torch.equal(gates.weight("U.n"), gates.weight("U.n").mT)
    assert not torch.equal(gates.weight("U.z"), gates.weight("U.z").mT)
    gates(X).outputs.sum().backward()
    assert all(parameter.grad is not None for parameter in gates.parameters())
    with pytest.raises(rc.OptionError, match="made with bias=False"):
        rc.Recurrent("gru", 3, 4, bias=False).freeze("b.n")
