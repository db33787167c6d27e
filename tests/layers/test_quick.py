"""The short way of a call on a CPU: the same bits as the long one, and the long one wherever something is not as it mostly is."""

import pytest
import torch

from recurra import EngineError, Recurrent, ShapeError
from recurra.layers import recurrent


@pytest.fixture
def taken(monkeypatch):
    """Whether the last call took the short way."""
    found = []
    quick = recurrent.run_quickly

    def watch(*given):
        result = quick(*given)
        found.append(result is not None)
        return result

    monkeypatch.setattr(recurrent, "run_quickly", watch)
    return found


def tensors(outputs, state):
    return [outputs, *(value for layer in state for direction in layer for value in direction)]


def run(layer, x, state):
    """A call and a step, with the gradients of both."""
    trace = layer(x, state)
    found = [*tensors(trace.outputs, trace.final), *tensors(*layer.step(x[:, 0], state))]
    if torch.is_grad_enabled():
        found += torch.autograd.grad(sum(each.square().sum() for each in found), list(layer.parameters()))
    return found


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("D", "H", "B", "T", "layers"), [(64, 64, 1, 1, 1), (32, 64, 9, 5, 2), (7, 13, 3, 2, 1), (32, 32, 20, 1, 2)]
)
@pytest.mark.parametrize("cell", ["lstm", "gru", "skip(d=2)"])
def test_both_ways_give_the_same_bits(cell, D, H, B, T, layers, grad, taken, monkeypatch):
    torch.manual_seed(0)
    layer, x = Recurrent(cell, D, H, layers=layers), torch.randn(B, T, D)
    for state in (None, layer(torch.randn(B, 3, D)).final):
        state = state and tuple(tuple(tuple(v.detach() for v in d) for d in one) for one in state)
        with torch.set_grad_enabled(grad), monkeypatch.context() as long:
            found = run(layer, x, state)
            assert all(taken)
            long.setattr(recurrent, "run_quickly", lambda *_: None)
            for a, b in zip(found, run(layer, x, state), strict=True):
                assert torch.equal(a, b)
                assert a.stride() == b.stride()
                assert a.requires_grad == b.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_row_has_the_same_bits_in_any_batch_and_in_any_chunks(cell, dtype):
    """Of few rows weights are read where they lie, of many they are packed."""
    torch.manual_seed(0)
    layer, x = Recurrent(cell, 32, 64, dtype=dtype).eval(), torch.randn(40, 9, 32, dtype=dtype)
    with torch.no_grad():
        whole = layer(x)
        for rows in (1, 2, 7, 8, 17):
            state, steps = None, []
            for t in range(9):
                y, state = layer.step(x[:rows, t], state)
                steps.append(y)
            assert torch.equal(torch.stack(steps, 1), whole.outputs[:rows])
            assert torch.equal(state[0][0][0], whole.final[0][0][0][:rows])
            assert torch.equal(layer(x[:rows, :2]).outputs, whole.outputs[:rows, :2])


@pytest.mark.parametrize("cell", ["lstm", "skip(d=2)"])
def test_gradients_of_any_inputs_and_of_second_order_are_those_of_the_plain_loop(cell, taken):
    """Inputs, states and what arrives at outputs lie in memory as users leave them; some are not wanted."""
    torch.manual_seed(0)
    layer = Recurrent(cell, 8, 16, dtype=torch.float64)
    x = torch.randn(5, 3, 8, dtype=torch.float64).transpose(0, 1).requires_grad_()
    state = tuple(
        tuple(tuple(v.detach().requires_grad_() for v in d) for d in one) for one in layer(torch.randn_like(x)).final
    )
    layer.stack[0][0].b.requires_grad_(False)
    wanted = [x, layer.stack[0][0].W, layer.stack[0][0].U, *state[0][0]]

    def run(engine):
        layer.engine = engine
        trace = layer(x, state)
        first = torch.autograd.grad(trace.outputs.mT.square().sum(), wanted)  # rows arrive scattered in memory
        first += torch.autograd.grad(layer(x, state).final[0][0][-1].mT.square().sum(), wanted)
        first += torch.autograd.grad(layer.step(x[:, 0], state)[0].sum(), wanted)
        (again,) = torch.autograd.grad(layer(x, state).outputs.square().sum(), [x], create_graph=True)
        return [*first, *torch.autograd.grad(again.square().sum(), wanted)]

    found = run("auto")
    assert all(taken)
    torch.testing.assert_close(found, run("eager"), rtol=1e-9, atol=1e-9)


def test_calls_share_no_memory():
    layer, x = Recurrent("lstm", 8, 16), torch.randn(2, 1, 8)
    with torch.no_grad():
        first = layer(x)
        kept = [each.clone() for each in tensors(first.outputs, first.final)]
        second = layer(x)
        for each in tensors(second.outputs, second.final):
            each.fill_(7.0)
        third = layer(x)
        for now in (first, third):
            assert all(torch.equal(a, b) for a, b in zip(tensors(now.outputs, now.final), kept, strict=True))


def test_weights_that_change_are_read_anew():
    layer, x = Recurrent("lstm", 8, 16), torch.randn(2, 1, 8)
    with torch.no_grad():
        layer(x)
        layer.stack[0][0].W.data *= 2
        layer.stack[0][0].b.data = torch.randn(64)
        expected = Recurrent("lstm", 8, 16, engine="eager")
        expected.load_state_dict(layer.state_dict())
        torch.testing.assert_close(layer(x).outputs, expected(x).outputs)
        layer.double()
        torch.testing.assert_close(layer(x.double()).outputs, expected.double()(x.double()).outputs)
        given = {name: torch.zeros_like(value) for name, value in layer.named_parameters()}
        assert not torch.func.functional_call(layer, given, (x.double(),)).outputs.any()


@pytest.mark.parametrize(
    ("where", "register"),
    [
        ("layer", "register_forward_hook"),
        ("layer", "register_forward_pre_hook"),
        ("layer", "register_full_backward_hook"),
        ("layer", "register_full_backward_pre_hook"),
        ("dropout", "register_forward_hook"),
    ],
)
def test_hooks_are_called(taken, where, register):
    layer, x, seen = Recurrent("lstm", 8, 16, layers=2), torch.randn(2, 1, 8, requires_grad=True), []
    module = layer.dropout if where == "dropout" else layer.stack[0][0]
    handle = getattr(module, register)(lambda *given: seen.append(1))
    layer(x).outputs.sum().backward()
    handle.remove()
    layer(x).outputs.sum().backward()
    assert seen == [1]
    assert taken == [False, True]


@pytest.mark.parametrize("engine", ["auto", "fused", "scan"])
def test_inputs_whose_rows_overlap_or_are_negated_where_they_are_read(engine):
    """Windows of a series have gradients of their own layout; a negated view has other numbers than its memory."""
    torch.manual_seed(0)
    layer = Recurrent("mingru", 8, 16, dtype=torch.float64)
    series = torch.randn(2, 10, dtype=torch.float64, requires_grad=True)
    for make in (lambda s: s.unfold(1, 8, 1), lambda s: torch._neg_view(s)[:, None, :8]):
        found = []
        for layer.engine in (engine, "eager"):
            trace = layer(make(series))
            weights = torch._neg_view(torch.ones_like(trace.outputs))  # what arrives is a negated view too
            found.append([trace.outputs, *torch.autograd.grad(trace.outputs, [series, *layer.parameters()], weights)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other)


def test_states_that_are_negated_where_they_are_read():
    layer, x = Recurrent("lstm", 8, 16), torch.randn(2, 3, 8)
    ((((h, c),),)) = layer(x).final
    expected = layer(x, (((-h, -c),),)).outputs
    assert torch.equal(layer(x, (((torch._neg_view(h), torch._neg_view(c)),),)).outputs, expected)


@pytest.mark.filterwarnings(
    "ignore:`torch.jit:DeprecationWarning"
)  # torch's own, as it begins with forward derivatives
def test_forward_derivatives_take_the_plain_loop(taken):
    layer, x = Recurrent("gru", 3, 4), torch.randn(1, 3, 3)
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        moved = torch.autograd.forward_ad.unpack_dual(layer(dual).outputs).tangent
    exact = layer.double()
    step, x = 1e-6, x.double()
    slope = (exact(x + step).outputs - exact(x - step).outputs) / (2 * step)
    torch.testing.assert_close(moved.double(), slope, rtol=1e-4, atol=1e-5)
    assert taken == [False, True, True]
    fused = Recurrent("gru", 3, 4, engine="fused")
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(EngineError, match=r"does not run within .* forward-mode derivatives"),
    ):
        fused(x.float())


def test_weights_of_another_shape_are_refused(taken):
    layer, x = Recurrent("lstm", 8, 16), torch.randn(2, 3, 8)
    given = {name: value.detach() for name, value in layer.named_parameters()}
    given["layers.0.0.b"] = torch.zeros(7)
    with pytest.raises(ShapeError, match=r"W, b and U of lstm are \[64, 8\], \[64\], \[64, 16\] .*; got .* \[7\]"):
        torch.func.functional_call(layer, given, (x,))
    given["layers.0.0.b"] = torch.zeros(64, dtype=torch.float64)
    wide = torch.func.functional_call(layer, given, (x,)).outputs
    given["layers.0.0.b"] = torch.zeros(64)
    torch.testing.assert_close(wide, torch.func.functional_call(layer, given, (x,)).outputs)
    assert taken == [False, False, True]


def test_what_the_short_way_does_not_know_takes_the_long_one(taken):
    x = torch.randn(2, 3, 8)
    layers = [
        Recurrent("lstm", 8, 8, bidirectional=True),
        Recurrent("lstm", 8, 8, layers=2, residual=True),
        Recurrent("lstm", 8, 8, layers=2, dropout=0.5),
        Recurrent("lstm", 8, 8, weight_dropout=0.5),
        Recurrent("lstm", 8, 8, learn_initial=True),
        Recurrent("lstm", 8, 8, engine="eager"),
        Recurrent("lstm", 8, 8, bias=False),
        Recurrent("leaky", 8, 8),
    ]
    layers.append(Recurrent("lstm", 8, 8))
    layers[-1].freeze("U.f")
    for layer in layers:
        layer(x)
    torch.func.vmap(lambda one: Recurrent.forward(layers[0], one[None]).outputs)(x)
    plain = Recurrent("lstm", 8, 8)
    plain(x, lengths=[1, 3])
    plain(x, record=True)
    plain(x[:0])
    assert not any(taken)


def test_dropout_of_its_own_mode_or_kind(taken):
    """As it is sampled at inference, or replaced."""
    x = torch.randn(2, 3, 8)
    layer = Recurrent("lstm", 8, 8, layers=2, dropout=0.5).eval()
    assert torch.equal(layer(x).outputs, layer(x).outputs)
    layer.dropout.train()
    assert not torch.equal(layer(x).outputs, layer(x).outputs)
    layer.train().dropout = torch.nn.Identity()
    layer(x)
    assert taken == [True, True, False, False, False]


def test_an_engine_that_cannot_run_says_so():
    with torch.no_grad(), pytest.raises(EngineError, match="torch has kernels for"):
        Recurrent("gru", 8, 16, engine="vendor")(torch.randn(2, 1, 8))
