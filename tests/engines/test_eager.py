"""The plain loop is right: against finite differences, against `torch.nn`, and against the graph of the same equations."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from recurra import CATALOGUE, Recurrent, cell, recurrent_dropout, tanh, where, zoneout
from recurra.cells.graph import block, evaluate
from recurra.engines.eager import Eager
from recurra.engines.protocol import Weights
from tests.helpers import CELLS, INVENTED, B, D, H, flatten, loss_of, make_layer, map_state, random_state

TORCH = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN tanh": nn.RNN,
    "RNN relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}


@pytest.mark.parametrize("name", [*CATALOGUE, *INVENTED])
def test_gradients_agree_with_finite_differences(name):
    layer = make_layer(CELLS[name], input_size=2, hidden_size=3, learn_initial=True, engine="eager")
    parameters = dict(layer.named_parameters())
    x = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2])

    def loss(x, *values):
        return loss_of(
            torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x, None, lengths))
        )

    assert torch.autograd.gradcheck(loss, (x, *parameters.values()), check_undefined_grad=False)


@pytest.mark.parametrize("engine", ["eager", "auto"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", TORCH)
def test_agrees_with_torch(kind, options, engine):
    theirs = TORCH[kind](D, H, batch_first=True, dtype=torch.float64, **options)
    ours = Recurrent.from_torch(theirs, engine=engine)
    x = torch.randn(B, 9, D, dtype=torch.float64)
    state = random_state(ours)
    assert_same_as_torch(ours, theirs, x, state)


def assert_same_as_torch(ours, theirs, x, state):
    """Outputs, final states and gradients of inputs, states and weights."""
    ours_x, theirs_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    count = len(ours.cell.graph.states)
    first = [torch.stack(flatten(state)[i::count]).detach().requires_grad_() for i in range(count)]
    trace = ours(ours_x, state)
    outputs, last = theirs(theirs_x, tuple(first) if count == 2 else first[0])
    last = last if isinstance(last, tuple) else (last,)
    close(trace.outputs, outputs)
    for i in range(count):
        close(torch.stack(flatten(trace.final)[i::count]), last[i])

    weights = [torch.randn_like(v) for v in (outputs, *last)]
    sum((v * w).sum() for v, w in zip((outputs, *last), weights, strict=True)).backward()
    finals = [torch.stack(flatten(trace.final)[i::count]) for i in range(count)]
    sum((v * w).sum() for v, w in zip((trace.outputs, *finals), weights, strict=True)).backward()
    close(ours_x.grad, theirs_x.grad)
    for i in range(count):
        close(torch.stack([s.grad for s in flatten(state)[i::count]]), first[i].grad)

    gradients = copy.deepcopy(
        ours
    )  # its gradients in the place of its weights, so that to_torch puts them in torch's order
    with torch.no_grad():
        for value, parameter in zip(gradients.parameters(), ours.parameters(), strict=True):
            value.copy_(parameter.grad)
    for name, found in gradients.to_torch().named_parameters():
        if name.startswith(("weight", "bias_ih")) and hasattr(theirs, name):
            close(found, getattr(theirs, name).grad)
        elif isinstance(theirs, nn.GRU) and hasattr(theirs, name):
            close(found[2 * H :], getattr(theirs, name).grad[2 * H :])


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"layers": 2, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("name", ["elman", "elman(relu)", "lstm", "gru_after", "memory", "updater"])
def test_to_torch_is_the_same_network(name, options):
    layer = make_layer(CELLS[name], engine="eager", **options)
    theirs = layer.to_torch()
    x = torch.randn(B, 9, D, dtype=torch.float64)
    close(theirs(x)[0], layer(x).outputs)
    back = Recurrent.from_torch(theirs, engine="eager")
    close(back(x).outputs, layer(x).outputs)


@pytest.mark.parametrize("name", CELLS)
def test_the_function_equals_its_graph(name):
    """One step of the loop, which runs the function as it stands, against the graph evaluated on the same values."""
    cell = CELLS[name]
    layer = make_layer(cell)
    graph, direction = cell.graph, layer.stack[0][0]
    x, state = torch.randn(B, 1, D, dtype=torch.float64), random_state(layer)
    torch.manual_seed(3)
    weights = direction.weights(1, B)
    torch.manual_seed(3)
    layer.engine = "eager"
    found = layer(x, state).final[0][0]
    past = {s.name: value for s, value in zip(graph.states, state[0][0], strict=True)}

    def leaf(node):
        match node.kind:
            case "drive":
                place = graph.drives.index(node.name) * H
                return linear(x[:, 0], direction.W[place : place + H], direction.b[place : place + H])
            case "state":
                value = past[node.name]
                return value if value.ndim == 2 else value[:, -node.delay]
            case "noise":
                return weights.noise[node.name][0]
            case _:
                return weights.units[node.name]

    values = evaluate(graph.updates, leaf, lambda n, v: linear(v, block(weights.U, graph.matrices, [n], H)))
    for update, state_variable, last in zip(graph.updates, graph.states, found, strict=True):
        latest = last if state_variable.depth == 1 else last[:, -1]
        torch.testing.assert_close(values[update], latest, rtol=1e-13, atol=1e-13)


def test_one_matrix_in_two_products_gets_the_gradients_of_both():
    layer = make_layer("elman", engine="eager")
    h, c = torch.randn(2, B, H, dtype=torch.float64)
    twice = make_layer(INVENTED["shared"], engine="eager")
    direction = twice.stack[0][0]
    x = torch.randn(B, 1, D, dtype=torch.float64)
    (expected,) = torch.autograd.grad(by_hand(direction, x[:, 0], h, c).sum(), direction.U)
    (found,) = torch.autograd.grad(twice(x, (((h, c),),)).outputs.sum(), direction.U)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert found[:H].abs().min() > 0
    assert layer.cell is not twice.cell


def by_hand(direction, x, h, c):
    """The first state of `shared` after one step."""
    a, b = linear(x, direction.W, direction.b).split(H, dim=-1)
    w = direction.matrix("w")
    return torch.tanh(a + h @ w.T * torch.sigmoid(b + c @ w.T))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_numbers_chosen_by_a_condition_have_the_layers_dtype(dtype):
    """`where(h > 0, 1, 0)` has no operand to take a dtype from, and still enters a product."""

    @cell
    def spiking(x, U, h):
        spikes = where(h > 0.0, 1.0, 0.0)
        return tanh(x.h + 0.5 * h + U.h(spikes))

    layer = Recurrent(spiking, D, H, engine="eager", init="uniform").to(dtype)
    outputs = layer(torch.randn(B, 5, D, dtype=dtype)).outputs
    assert outputs.dtype == dtype
    outputs.sum().backward()
    assert layer.stack[0][0].U.grad.abs().sum() > 0


def test_a_number_or_a_parameter_may_be_the_next_state():
    @cell
    def constant(x, U, h, c):
        return x.h + c, 2.0

    layer = make_layer(constant, engine="eager")
    trace = layer(torch.randn(B, 3, D, dtype=torch.float64))
    assert torch.equal(trace.final[0][0][1], torch.full((B, H), 2.0, dtype=torch.float64))


@pytest.mark.parametrize("wrap", [zoneout, recurrent_dropout])
def test_masks_differ_between_batch_rows_and_steps_as_declared(wrap):
    layer = Recurrent(wrap(CATALOGUE["gru"], 0.5), D, 64)
    (mask,) = layer.stack[0][0].weights(6, B).noise.values()
    assert mask.shape == (6 if wrap is zoneout else 1, B, 64)
    assert set(mask.unique().tolist()) == ({0.0, 1.0} if wrap is zoneout else {0.0, 2.0})
    assert not torch.equal(mask[:, 0], mask[:, 1])


def test_a_state_given_is_not_changed():
    layer = make_layer("lstm", engine="eager")
    state = random_state(layer)
    before = map_state(torch.clone, state)
    layer(torch.randn(B, 4, D, dtype=torch.float64), state)
    assert all(torch.equal(a, b) for a, b in zip(flatten(state), flatten(before), strict=True))


def test_axes_are_checked_while_testing():
    jaxtyping = pytest.importorskip("jaxtyping")
    pytest.importorskip("beartype")
    weights = Weights(torch.zeros(H, D), torch.zeros(H), torch.zeros(H, H))
    with pytest.raises(jaxtyping.TypeCheckError):
        Eager().run(CATALOGUE["elman"], weights, torch.zeros(3, D), (torch.zeros(1, B, H),), None)
