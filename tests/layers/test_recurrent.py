"""`Recurrent`: streaming, splitting, records, directions, dropout, first values and constraints."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from recurra import (
    CATALOGUE,
    Learned,
    OptionError,
    Recurrent,
    cell,
    recurrent_dropout,
    relu,
    sigmoid,
    spectral_radius,
    tanh,
    zoneout,
)
from recurra.engines.eager import Eager
from tests.helpers import CELLS, INVENTED, B, D, H, engines_for, flatten, make_layer, random_state, two_speeds

NAMES = [*CATALOGUE, *INVENTED]


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_step_over_a_sequence_equals_the_sequence_call(name):
    layer = make_layer(CELLS[name], layers=2)
    x = torch.randn(B, 9, D, dtype=torch.float64)
    trace = layer(x)
    state, outputs = None, []
    for t in range(x.shape[1]):
        y, state = layer.step(x[:, t], state)
        outputs.append(y)
    close(torch.stack(outputs, dim=1), trace.outputs)
    close(flatten(state), flatten(trace.final))


@pytest.mark.parametrize("name", NAMES)
@given(split=st.integers(1, 10), layers=st.integers(1, 2))
def test_a_sequence_may_be_split_anywhere(name, split, layers):
    layer = make_layer(CELLS[name], layers=layers)
    x, state = torch.randn(B, 11, D, dtype=torch.float64), random_state(layer)
    whole = layer(x, state)
    first = layer(x[:, :split], state)
    second = layer(x[:, split:], first.final)
    close(torch.cat([first.outputs, second.outputs], dim=1), whole.outputs)
    close(flatten(second.final), flatten(whole.final))


def test_initial_state_is_where_a_call_without_state_starts():
    layer = make_layer("lstm", learn_initial=True, layers=2)
    x = torch.randn(B, 4, D, dtype=torch.float64)
    close(layer(x, layer.initial_state(B)).outputs, layer(x).outputs)
    assert flatten(layer.initial_state(2))[0].abs().min() > 0


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", [*NAMES, "zoneout(lstm)"])
def test_a_record_holds_every_state_and_gate(name, ragged):
    layer = make_layer(CELLS[name], layers=2, bidirectional=True).eval()
    x = torch.randn(B, 6, D, dtype=torch.float64)
    lengths = torch.tensor([3, 0, 6]) if ragged else None
    trace = layer(x, lengths=lengths, record=True)
    graph = layer.cell.graph
    names = {state.name for state in graph.states} | set(graph.gates)
    assert [[set(one) for one in each] for each in trace.record] == [[names, names]] * 2
    assert all(v.shape == (B, 6, H) for each in trace.record for one in each for v in one.values())

    first = graph.states[0].name
    ahead, back = trace.record[-1]
    close(torch.cat([ahead[first], back[first]], dim=-1), trace.outputs)
    close(trace.outputs, layer(x, lengths=lengths).outputs)
    ends = torch.full((B,), 6) if lengths is None else lengths
    for lane in range(B):
        end = int(ends[lane])
        for one in trace.record[0]:
            for value in one.values():
                assert torch.all(value[lane, end:] == 0)
        for i, state in enumerate(graph.states):
            for d, step in ((0, end - 1), (1, 0)):
                if end:
                    last = trace.final[0][d][i][lane]
                    close(trace.record[0][d][state.name][lane, step], last if state.depth == 1 else last[-1])


@pytest.mark.parametrize("ragged", [False, True])
def test_recorded_gates_give_back_the_states(ragged):
    """For both directions of an LSTM: c = f c + i g and h = o tanh(c), with the earlier state on the side it came from."""
    layer = make_layer("lstm", bidirectional=True)
    x, state = torch.randn(B, 7, D, dtype=torch.float64), random_state(layer)
    lengths = torch.tensor([4, 1, 7]) if ragged else torch.tensor([7, 7, 7])
    trace = layer(x, state, lengths, record=True)
    for d, one in enumerate(trace.record[0]):
        for lane, end in enumerate(lengths.tolist()):
            gate = {name: value[lane, :end] for name, value in one.items()}
            if d:
                gate = {name: value.flip(0) for name, value in gate.items()}
            before = torch.cat([state[0][d][1][lane][None], gate["c"][:-1]])
            close(gate["f"] * before + gate["i"] * gate["g"], gate["c"])
            close(gate["o"] * gate["c"].tanh(), gate["h"])


def test_recorded_gates_are_those_of_the_step():
    """The update gate of a GRU at each step, from the equation and the state before it."""
    layer = make_layer("gru")
    x, state = torch.randn(B, 5, D, dtype=torch.float64), random_state(layer)
    record = layer(x, state, record=True).record[0][0]
    one = layer.stack[0][0]
    place = layer.cell.graph.drives.index("z") * H
    drive = x @ one.W[place : place + H].T + one.b[place : place + H]
    before = torch.cat([state[0][0][0][:, None], record["h"][:, :-1]], dim=1)
    close(record["z"], torch.sigmoid(drive + before @ one.matrix("z").T))


def test_gates_of_a_delayed_state_are_recorded():
    layer = make_layer(two_speeds)
    x, state = torch.randn(B, 6, D, dtype=torch.float64), random_state(layer)
    record = layer(x, state, record=True).record[0][0]
    fast, slow = state[0][0]
    rate = layer.stack[0][0].unit_values()["rate"]
    before = torch.cat([slow[:, -1:], record["slow"][:, :-1]], dim=1)
    close(record["slow"], before + rate * (record["fast"] - before))
    assert fast.shape == (B, 2, H)


def test_a_record_keeps_its_gradient():
    layer = make_layer("lstm")
    layer(torch.randn(B, 5, D, dtype=torch.float64), record=True).record[0][0]["f"].sum().backward()
    assert layer.stack[0][0].U.grad.abs().sum() > 0


def test_without_record_there_is_none():
    assert make_layer("gru")(torch.randn(B, 2, D, dtype=torch.float64)).record is None


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        ("concat", lambda a, b: torch.cat([a, b], dim=-1)),
        ("sum", lambda a, b: a + b),
        ("mean", lambda a, b: (a + b) / 2),
        ("mul", lambda a, b: a * b),
    ],
)
def test_merge_of_two_directions(merge, expected):
    layer = make_layer("gru", bidirectional=True, merge=merge)
    x = torch.randn(B, 6, D, dtype=torch.float64)
    runs = []
    for one, inputs in zip(layer.stack[0], (x, x.flip(1)), strict=True):
        alone = make_layer("gru")
        alone.layers[0][0].load_state_dict(one.state_dict())
        runs.append(alone(inputs))
    trace = layer(x)
    close(trace.outputs, expected(runs[0].outputs, runs[1].outputs.flip(1)))
    close(flatten(trace.final), [*flatten(runs[0].final), *flatten(runs[1].final)])
    assert trace.outputs.shape[-1] == layer.output_size


def test_residual_adds_a_layers_input_from_the_second_on():
    layer = make_layer("gru", layers=3, residual=True)
    x = torch.randn(B, 6, D, dtype=torch.float64)
    y = x
    for k, (one,) in enumerate(layer.stack):
        alone = make_layer("gru", input_size=one.input_size)
        alone.layers[0][0].load_state_dict(one.state_dict())
        y = alone(y).outputs + (y if k else 0)
    close(layer(x).outputs, y)


def test_dropout_has_one_mask_for_all_steps_and_is_off_when_evaluating():
    layer = Recurrent("elman", D, 400, layers=2, dropout=0.25)
    y = torch.ones(5, 2, 400)
    dropped = layer.dropout(y)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert not torch.equal(dropped[0, 0], dropped[0, 1])
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert 0.15 < (dropped == 0).float().mean() < 0.35
    x = torch.randn(2, 5, D)
    assert not torch.equal(layer(x).outputs, layer(x).outputs)
    layer.eval()
    assert torch.equal(layer.dropout(y), y)
    assert torch.equal(layer(x).outputs, layer(x).outputs)


def test_dropout_lies_between_layers_only():
    layer = Recurrent("elman", D, H, dropout=0.9)
    x = torch.randn(2, 5, D)
    assert torch.equal(layer(x).outputs, layer(x).outputs)


@pytest.mark.parametrize("engine", engines_for(CATALOGUE["lstm"]))
def test_a_learned_initial_state_gets_a_gradient(engine):
    layer = Recurrent("lstm", D, H, layers=2, bidirectional=True, learn_initial=True, engine=engine)
    layer(torch.randn(B, 5, D)).outputs.square().sum().backward()
    firsts = [p for name, p in layer.named_parameters() if "initial" in name]
    assert len(firsts) == 2 * 2 * 2
    assert all(p.grad.abs().min() > 0 for p in firsts)


def test_orthogonal_is_the_first_value_of_recurrent_matrices():
    layer = Recurrent("lstm", D, 16, dtype=torch.float64)
    for name in "ifoc":
        U = layer.stack[0][0].matrix(name)
        close(U.T @ U, torch.eye(16, dtype=torch.float64))


def test_spectral_radius():
    layer = Recurrent("gru", D, 16, init=spectral_radius(0.9), dtype=torch.float64)
    for name in "zrn":
        radius = torch.linalg.eigvals(layer.stack[0][0].matrix(name)).abs().max()
        assert radius.item() == pytest.approx(0.9, rel=1e-12)


def test_spectral_radius_of_a_sparse_matrix():
    layer = Recurrent("elman", D, 100, init=spectral_radius(0.9, density=0.2), dtype=torch.float64)
    matrix = layer.stack[0][0].matrix("h").detach()
    assert float(torch.linalg.eigvals(matrix).abs().max()) == pytest.approx(0.9, abs=1e-10)
    assert float((matrix == 0).double().mean()) == pytest.approx(0.8, abs=0.02)


def test_other_first_values():
    assert torch.equal(Recurrent("elman", D, 8, init="identity").stack[0][0].matrix("h"), torch.eye(8))
    uniform = Recurrent("elman", D, 64, init="uniform").stack[0][0].U
    assert 0.115 < uniform.abs().max() <= 0.125
    xavier = Recurrent("elman", D, 64, init="xavier").stack[0][0].U
    assert 0.2 < xavier.abs().max() <= (6 / 128) ** 0.5
    own = Recurrent("lstm", D, 8, init=lambda matrix: matrix.fill_(0.25)).stack[0][0].U
    assert torch.equal(own, torch.full_like(own, 0.25))


def test_first_values_of_biases_and_parameters():
    one = Recurrent("lstm", D, H).stack[0][0]
    drives = one.cell.graph.drives
    for k, name in enumerate(drives):
        assert torch.all(one.b[k * H : (k + 1) * H] == (1.0 if name == "f" else 0.0))
    clock = Recurrent("clockwork", D, 8).stack[0][0].unit_values()["period"]
    assert clock.tolist() == [1, 1, 2, 2, 4, 4, 8, 8]
    alpha = Recurrent("leaky", D, H, dtype=torch.float64).stack[0][0].unit_values()["alpha"]
    close(alpha, torch.full((H,), 0.9, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["lstm", "orthogonal", "antisymmetric"])
def test_layers_can_be_made_in_half_precision(name, dtype):
    layer = Recurrent(name, D, 8, dtype=dtype)
    U = layer.stack[0][0].matrix(layer.cell.graph.matrices[0]).double()
    expected = torch.zeros(8, 8) if name == "antisymmetric" else torch.eye(8)
    torch.testing.assert_close(U + U.T if name == "antisymmetric" else U.T @ U, expected.double(), rtol=0, atol=0.03)


@pytest.mark.parametrize(
    ("low", "high", "value"), [(1, None, 1000.0), (None, 1000, 1.0), (0, 1, 0.999), (-1, None, -0.99)]
)
def test_a_bounded_parameter_starts_at_its_value(low, high, value):
    @cell
    def slow(x, U, h, *, tau=Learned(value, low=low, high=high)):
        return h + (tanh(x.h + U.h(h)) - h) / tau

    found = Recurrent(slow, D, H, dtype=torch.float64).stack[0][0].unit_values()["tau"]
    close(found, torch.full((H,), value, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_hold_after_big_steps(sign):
    @cell
    def bounded(x, U, h, *, a=Learned(0.5, low=0, high=1), b=Learned(2.0, low=1), c=Learned(2.0, high=3)):
        return a * h + b * tanh(x.h + U.h(h)) - c

    layer = Recurrent(bounded, D, H)
    optimiser = torch.optim.SGD(layer.parameters(), lr=100.0)
    one = layer.stack[0][0]
    for _ in range(5):
        optimiser.zero_grad()
        (sign * sum(v.sum() for v in one.unit_values().values())).backward()
        optimiser.step()
    a, b, c = one.unit_values().values()
    assert all(v.isfinite().all() for v in (a, b, c))
    assert ((a >= 0) & (a <= 1)).all()
    assert (b >= 1).all()
    assert (c <= 3).all()
    assert (a < 0.01).all() if sign > 0 else (a > 0.99).all()


@pytest.mark.parametrize("name", ["antisymmetric", "orthogonal"])
def test_constraints_hold_after_optimiser_steps(name):
    layer = Recurrent(name, D, 6, dtype=torch.float64)
    one = layer.stack[0][0]
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.02)
    before = one.matrix("h").detach().clone()
    for _ in range(3):
        optimiser.zero_grad()
        layer(torch.randn(B, 5, D, dtype=torch.float64)).outputs.square().sum().backward()
        optimiser.step()
    U = one.matrix("h")
    assert (U - before).abs().max() > 1e-3
    if name == "antisymmetric":
        close(U, -U.T)
    else:
        close(U.T @ U, torch.eye(6, dtype=torch.float64))
    close(one.recurrent_matrices(), U)


def test_a_constraint_of_your_own_cell():
    @cell(constrain={"turn": "orthogonal"})
    def turning(x, U, h):
        return relu(x.h + U.turn(h)) * sigmoid(U.free(h))

    one = make_layer(turning).stack[0][0]
    assert turning.graph.matrices == ("turn", "free")
    U = one.recurrent_matrices()
    close(U[:H].T @ U[:H], torch.eye(H, dtype=torch.float64))
    assert torch.equal(U[H:], one.U[H:])


@pytest.mark.parametrize("name", ["lstm_norm", "clockwork", "two_speeds", "orthogonal"])
def test_weights_go_through_safetensors(name, tmp_path):
    options = {"layers": 2, "bidirectional": True, "learn_initial": True}
    layer, other = make_layer(CELLS[name], **options), make_layer(CELLS[name], **options)
    x = torch.randn(B, 5, D, dtype=torch.float64)
    assert not torch.equal(layer(x).outputs, other(x).outputs)
    save_file(layer.state_dict(), tmp_path / "weights.safetensors")
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(layer(x).outputs, other(x).outputs)


@pytest.mark.parametrize("name", ["lstm", "skip", "toolbox"])
def test_a_copy_is_the_same_and_apart(name):
    layer = make_layer(CELLS[name], layers=2)
    other = copy.deepcopy(layer)
    x = torch.randn(B, 5, D, dtype=torch.float64)
    before = layer(x).outputs
    assert torch.equal(other(x).outputs, before)
    with torch.no_grad():
        other.stack[0][0].W.add_(1)
    assert not torch.equal(other(x).outputs, before)
    assert torch.equal(layer(x).outputs, before)


def test_nothing_is_remembered_between_calls():
    layer = make_layer("lstm")
    x = torch.randn(B, 5, D, dtype=torch.float64)
    assert torch.equal(layer(x).outputs, layer(x).outputs)


def test_zoneout_is_random_when_training_and_its_mean_when_evaluating():
    layer = make_layer(zoneout(CATALOGUE["gru"], 0.3), engine="eager")
    plain = make_layer("gru", engine="eager")
    plain.load_state_dict(layer.state_dict())
    x, state = torch.randn(B, 1, D, dtype=torch.float64), random_state(layer)
    assert not torch.equal(layer(x, state).outputs, layer(x, state).outputs)
    old, new = state[0][0][0], plain(x, state).final[0][0][0]
    layer.eval()
    close(layer(x, state).final[0][0][0], 0.3 * old + 0.7 * new)
    layer.train()
    values = layer(x, state).final[0][0][0]
    assert torch.all(((values - old).abs() < 1e-12) | ((values - new).abs() < 1e-12))


@pytest.mark.parametrize("mode", [True, False])
def test_zoneout_of_nothing_is_the_cell(mode):
    layer, plain = make_layer(zoneout(CATALOGUE["lstm"], 0.0)).train(mode), make_layer("lstm").train(mode)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(B, 6, D, dtype=torch.float64)
    close(layer(x).outputs, plain(x).outputs)
    close(flatten(layer(x).final), flatten(plain(x).final))


def test_zoneout_may_differ_by_state():
    layer = make_layer(zoneout(CATALOGUE["lstm"], {"c": 0.5}), engine="eager").eval()
    plain = make_layer("lstm", engine="eager").eval()
    plain.load_state_dict(layer.state_dict())
    x, state = torch.randn(B, 1, D, dtype=torch.float64), random_state(layer)
    (h, c), (plain_h, plain_c) = layer(x, state).final[0][0], plain(x, state).final[0][0]
    close(h, plain_h)
    close(c, (state[0][0][1] + plain_c) / 2)


def test_step_of_a_bidirectional_layer_says_what_to_do():
    with pytest.raises(OptionError, match="Call the layer instead"):
        make_layer("gru", bidirectional=True).step(torch.randn(B, D, dtype=torch.float64))


def test_recurrent_dropout_masks_what_products_read_and_nothing_else():
    layer = make_layer(recurrent_dropout(CATALOGUE["elman"], 0.5), engine="eager")
    x, state = torch.randn(B, 2, D, dtype=torch.float64), random_state(layer)
    one = layer.stack[0][0]
    torch.manual_seed(5)
    mask = one.weights(2, B).noise["kept"][0]
    torch.manual_seed(5)
    found = layer(x, state).outputs
    h = state[0][0][0]
    for t in range(2):
        h = torch.tanh(x[:, t] @ one.W.T + one.b + (h * mask) @ one.U.T)
        close(found[:, t], h)
    layer.eval()
    plain = make_layer("elman", engine="eager")
    plain.load_state_dict(layer.state_dict())
    close(layer(x, state).outputs, plain(x, state).outputs)


def test_engines_see_zeros_past_the_end(monkeypatch):
    """In every layer, so that they may multiply what they read there."""
    seen = []

    def run(self, cell, weights, x, initial, lengths, **options):
        seen.append(x)
        return plain(self, cell, weights, x, initial, lengths, **options)

    plain = Eager.run
    monkeypatch.setattr(Eager, "run", run)
    layer = make_layer("gru", layers=2, bidirectional=True, residual=True, engine="eager")
    layer(torch.randn(B, 5, D, dtype=torch.float64), random_state(layer), torch.tensor([2, 0, 5]))
    assert len(seen) == 4
    for x in seen:
        assert torch.all(x[2:, 0] == 0)
        assert torch.all(x[:, 1] == 0)
        assert torch.all(x[:, 2].abs().sum(-1) > 0)
