"""What `@cell` reads off a function: states, drives, matrices, parameters, gates, options and variants."""

import pytest
import torch

from recurra import (
    CATALOGUE,
    Fixed,
    Groups,
    Learned,
    Ramp,
    Recurrent,
    Scattered,
    cell,
    exp,
    find_cell,
    gelu,
    sigmoid,
    silu,
    sqrt,
    tanh,
)
from recurra.cells.parameters import spread
from tests.helpers import CELLS, B, D, H, make_layer, toolbox, two_speeds

GATES = {
    "elman": set(),
    "jordan": {"h"},
    "lstm": {"i", "f", "o", "g"},
    "lstm_peephole": {"i", "f", "o", "g"},
    "lstm_coupled": {"f", "o", "g"},
    "lstm_norm": {"i", "f", "o", "g"},
    "gru": {"z", "r", "n"},
    "gru_after": {"z", "r", "n"},
    "leaky": set(),
    "skip": set(),
    "delayed": set(),
    "clockwork": {"n"},
    "deep_transition": {"m"},
    "deep_transition_skip": {"m"},
    "indrnn": set(),
    "mingru": {"z"},
    "minlstm": {"f", "i"},
    "carousel": set(),
    "rotation": set(),
    "lru": {"o", "r", "scale"},
    "antisymmetric": set(),
    "orthogonal": {"v"},
}


@pytest.mark.parametrize("name", GATES)
def test_gates_are_the_values_that_the_equations_name(name):
    assert set(CATALOGUE[name].graph.gates) == GATES[name]


def test_every_cell_of_the_catalogue_is_listed_here_and_says_where_it_comes_from():
    assert set(GATES) == set(CATALOGUE)
    for each in CATALOGUE.values():
        assert any(str(year) in each.__doc__ for year in range(1986, 2027)), each.name


def test_states_drives_matrices_and_parameters():
    graph = CATALOGUE["lstm_peephole"].graph
    assert [s.name for s in graph.states] == ["h", "c"]
    assert set(graph.drives) == set(graph.matrices) == {"i", "f", "c", "o"}
    assert set(graph.parameters) == {"p_i", "p_f", "p_o"}
    assert graph.bias == {"f": 1.0}
    assert CATALOGUE["mingru"].graph.matrices == ()
    assert set(toolbox.graph.parameters) == {"scale", "shift", "top"}


def test_what_is_not_used_is_not_part_of_the_cell():
    @cell
    def wasteful(x, U, h):
        unused = sigmoid(x.gone + U.gone(h))
        used = tanh(x.h + U.h(h))
        assert unused is not used
        return used * 1.0 + 0.0

    assert wasteful.graph.drives == ("h",)
    assert wasteful.graph.matrices == ("h",)
    assert "unused" not in wasteful.graph.gates
    layer = make_layer(wasteful, engine="eager")
    elman = make_layer("elman")
    elman.load_state_dict(layer.state_dict())
    x = torch.randn(B, 3, D, dtype=torch.float64)
    torch.testing.assert_close(layer(x).outputs, elman(x).outputs)


def test_locals_of_a_helper_are_not_gates():
    def squash(value):
        doubled = value + value
        return tanh(doubled)

    @cell
    def helped(x, U, h):
        n = squash(x.n + U.n(h))
        return 0.5 * h + n

    assert set(helped.graph.gates) == {"n"}


def test_depth_is_the_longest_delay():
    assert [s.depth for s in CATALOGUE["skip"].graph.states] == [4]
    assert [s.depth for s in CATALOGUE["delayed"](d=7).graph.states] == [7]
    assert [s.depth for s in two_speeds.graph.states] == [2, 3]
    assert [s.depth for s in CATALOGUE["delayed"](d=1).graph.states] == [1]


def test_variants_change_options_and_leave_the_cell_alone():
    eight = CATALOGUE["skip"](d=8)
    assert eight.graph.states[0].depth == 8
    assert CATALOGUE["skip"].graph.states[0].depth == 4
    assert CATALOGUE["elman"](activation="relu").graph.equations() == ["h' = relu(x.h + U.h(h))"]
    assert CATALOGUE["elman"](activation=torch.sin).graph.equations() == ["h' = sin(x.h + U.h(h))"]
    assert CATALOGUE["leaky"](alpha=0.5).graph.parameters == {}
    assert CATALOGUE["leaky"](alpha=Fixed([0.1, 0.9])).graph.parameters == {"alpha": Fixed([0.1, 0.9])}


def test_a_call_on_tensors_runs_the_equations_as_they_stand():
    class Drives:
        h = torch.randn(B, H)

    class Products:
        @staticmethod
        def h(v):
            return 2 * v

    h = torch.randn(B, H)
    elman = CATALOGUE["elman"]
    torch.testing.assert_close(elman(Drives, Products, h), torch.tanh(Drives.h + 2 * h))
    torch.testing.assert_close(elman(activation="relu")(Drives, Products, h), torch.relu(Drives.h + 2 * h))
    torch.testing.assert_close(
        CATALOGUE["leaky"](alpha=0.5)(Drives, Products, h), 0.5 * h + 0.5 * torch.tanh(Drives.h + 2 * h)
    )


def test_functions_of_plain_numbers():
    """A parameter that is given as a number goes through the same equations."""

    @cell
    def decaying(x, U, h, *, tau=Learned(2.0, low=0), size=4):
        return exp(-1 / tau) * h + tanh(x.h + U.h(h)) / sqrt(size)

    learned, plain = make_layer(decaying(tau=Fixed(3.0))), make_layer(decaying(tau=3.0))
    with pytest.warns(UserWarning, match="whose equations are not those"):  # a parameter, and a number
        plain.load_state_dict(learned.state_dict())
    x = torch.randn(B, 4, D, dtype=torch.float64)
    torch.testing.assert_close(plain(x).outputs, learned(x).outputs)


def test_methods_and_torch_functions_are_read_as_operations():
    @cell
    def methods(x, U, h):
        return torch.tanh(x.a.sigmoid() * torch.where(h > 0, h, x.a) + torch.mul(h, 2) - torch.tensor(3.0) * h.abs())

    assert methods.graph.equations() == ["h' = tanh(sigmoid(x.a) * where(0 < h, h, x.a) + h * 2 - 3 * abs(h))"]
    layer = make_layer(methods)
    assert layer(torch.randn(B, 3, D, dtype=torch.float64)).outputs.isfinite().all()


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu", "exp", "abs", "sign", "floor", "sin", "cos", "erf"])
def test_what_may_be_written_as_a_method_also_runs(name):
    """A method that is read without complaint must exist on tensors too."""

    @cell
    def method(x, U, h):
        return tanh(getattr(x.a + h, name)())

    assert make_layer(method, engine="eager")(torch.randn(B, 2, D, dtype=torch.float64)).outputs.isfinite().all()


@pytest.mark.parametrize("activation", [silu, gelu], ids=["silu", "gelu"])
def test_composed_activations_equal_those_of_torch(activation):
    v = torch.randn(100, dtype=torch.float64)
    torch.testing.assert_close(activation(v), getattr(torch.nn.functional, activation.__name__)(v))


def test_first_values_are_spread_over_units():
    assert spread(2, 3).tolist() == [2, 2, 2]
    assert spread([1, 2, 4], 6).tolist() == [1, 1, 2, 2, 4, 4]
    assert spread(Groups([1, 2, 4]), 7).tolist() == [1, 1, 1, 2, 2, 4, 4]
    assert spread(torch.arange(3.0), 3).tolist() == [0, 1, 2]
    assert spread(Ramp(0, 1), 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    scattered = spread(Scattered(2, 4), 50)
    assert 2 <= float(scattered.min()) < 2.1 < 3.9 < float(scattered.max()) <= 4
    assert scattered.diff().abs().min() > 0.5  # neighbours are far apart


@pytest.mark.parametrize(
    ("name", "equation"),
    [
        ("gru", None),
        (" gru ", None),
        ("skip(d=2)", "h' = tanh(x.h + U.h(h) + U.far(ago(h, 2)))"),
        ("elman(activation=relu)", "h' = relu(x.h + U.h(h))"),
        ("elman(activation='relu')", "h' = relu(x.h + U.h(h))"),
        ("elman()", "h' = tanh(x.h + U.h(h))"),
        ("antisymmetric(step=0.5, damping=2)", "h' = h + 0.5 * tanh(x.h + U.h(h) - 2 * h)"),
        ("leaky(alpha=0.25)", "h' = 0.25 * h + 0.75 * tanh(x.h + U.h(h))"),
    ],
)
def test_cells_by_name(name, equation):
    found = find_cell(name)
    if equation is None:
        assert found is CATALOGUE[name.strip()]
    else:
        assert found.graph.equations()[-1] == equation


def test_a_cell_of_a_file(tmp_path):
    path = tmp_path / "own cells.py"
    path.write_text(
        "from recurra import cell, tanh\n\n@cell\ndef mine(x, U, h, *, k=3.0):\n    return tanh(k * x.h + U.h(h))\n"
    )
    assert find_cell(f"{path}:mine").graph.equations() == ["h' = tanh(3 * x.h + U.h(h))"]
    assert find_cell(f"{path}:mine(k=2)").graph.equations() == ["h' = tanh(2 * x.h + U.h(h))"]
    layer = Recurrent(f"{path}:mine(k=2)", D, H)
    assert layer(torch.randn(B, 3, D)).outputs.shape == (B, 3, H)


def test_a_delay_of_one_is_the_state_itself():
    layer, elman = make_layer(CATALOGUE["delayed"](d=1)), make_layer("elman")
    elman.load_state_dict(layer.state_dict())
    x = torch.randn(B, 5, D, dtype=torch.float64)
    torch.testing.assert_close(layer(x).outputs, elman(x).outputs)
    assert CATALOGUE["delayed"](d=1).graph.equations() == CATALOGUE["elman"].graph.equations()


def test_a_wrapped_cell_keeps_states_gates_and_biases():
    wrapped, plain = CELLS["zoneout(lstm)"].graph, CATALOGUE["lstm"].graph
    assert wrapped.states == plain.states
    assert {"i", "f", "o", "g"} <= set(wrapped.gates)
    assert wrapped.bias == plain.bias
    assert set(wrapped.noises) == {"zoneout_h", "zoneout_c"}
    assert wrapped.noises["zoneout_h"].mean == pytest.approx(0.2)
