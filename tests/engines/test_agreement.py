"""Every engine agrees with the plain loop: outputs, final states and every gradient."""

import copy

import pytest
import torch
from torch import Tensor

from recurra.engines.choose import ENGINES
from tests.helpers import (
    CELLS,
    B,
    D,
    H,
    agreement_marks,
    compare_engines,
    make_layer,
    map_state,
    random_state,
    run_all,
    supporting,
)

PAIRS = [
    pytest.param(cell, engine, id=f"{engine}-{name}", marks=agreement_marks(engine, name))
    for engine in ENGINES
    if engine != "eager"
    for name, cell in CELLS.items()
    if supporting(engine, cell)
]
STACKS = {"one": {}, "stack": {"layers": 2, "bidirectional": True}}


def lengths_for(T):
    """A full sequence, an empty one, and one in between."""
    return torch.tensor([T // 2 + 1, 0, T])


@pytest.mark.parametrize(("T", "stack"), [(1, "one"), (2, "stack"), (7, "one"), (33, "stack")])
@pytest.mark.parametrize(("cell", "engine"), PAIRS)
def test_engine_agrees_with_eager(cell, engine, T, stack):
    if not supporting(engine, cell, T=T):
        pytest.skip(f"{engine} does not run {T} steps of this cell")
    layer = make_layer(cell, **STACKS[stack])
    x = torch.randn(B, T, D, dtype=torch.float64)
    state = random_state(layer)
    compare_engines(layer, engine, x, state)
    compare_engines(layer, engine, x, state, lengths_for(T))


@pytest.mark.parametrize(("cell", "engine"), PAIRS)
def test_engine_agrees_on_learned_initial_states(cell, engine):
    layer = make_layer(cell, learn_initial=True)
    x = torch.randn(B, 7, D, dtype=torch.float64)
    compare_engines(layer, engine, x)
    compare_engines(layer, engine, x, lengths=lengths_for(7))


@pytest.mark.parametrize(("cell", "engine"), PAIRS)
def test_engine_agrees_when_evaluating_without_gradients(cell, engine):
    layer = make_layer(cell).eval()
    x = torch.randn(B, 7, D, dtype=torch.float64)
    traces = []
    with torch.no_grad():
        for name in (engine, "eager"):
            layer.engine = name
            traces.append(layer(x, lengths=lengths_for(7)))
    torch.testing.assert_close(traces[0].outputs, traces[1].outputs, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(traces[0].final, traces[1].final, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("cell", "engine"), PAIRS)
def test_engine_agrees_on_gradients_of_a_part(cell, engine):
    """Only the last step's output enters the loss, and only the input weights take gradients."""
    layer = make_layer(cell)
    x = torch.randn(B, 7, D, dtype=torch.float64)
    gradients = []
    for name in (engine, "eager"):
        layer.engine = name
        torch.manual_seed(7)
        loss = layer(x).outputs[:, -1].square().sum()
        gradients += torch.autograd.grad(loss, layer.stack[0][0].W, materialize_grads=True)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)


def relative_errors(found: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    """‖difference‖ / ‖value‖ of outputs, final states and every gradient."""
    return {
        name: float((found[name].double() - value).norm() / value.norm().clamp(min=1e-3))
        for name, value in exact.items()
    }


@pytest.mark.gpu
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "eager"])
def test_engine_agrees_with_eager_on_gpu(cell, engine, stack):
    T, units = 33, 40 if engine == "fused" else H  # large enough for CUDA C++, where there are products
    dtype = next((d for d in (torch.float64, torch.float32) if supporting(engine, cell, device="cuda", dtype=d)), None)
    if dtype is None:
        pytest.skip(f"{engine} does not run this cell on a GPU")
    layer = make_layer(cell, hidden_size=units, learn_initial=True, **STACKS[stack]).to("cuda", dtype)
    with torch.no_grad():  # as far from saturation as the smaller ones
        for parameter in layer.parameters():
            parameter.mul_((H / units) ** 0.5)
    x = torch.randn(B, T, D, device="cuda", dtype=dtype)
    for state, lengths in ((None, None), (random_state(layer), lengths_for(T))):
        if dtype == torch.float64:
            compare_engines(layer, engine, x, state, lengths, tolerance=1e-10)
            continue
        # a network that amplifies has no digits left in float32: then the engine must be about as good as the plain loop is.
        # Three products in tf32 keep 22 bits of each factor, where the plain loop's keep 24: four to sixteen times its error
        share = 16 if engine == "fused" else 2
        double = None if state is None else map_state(Tensor.double, state)
        exact = run_all(copy.deepcopy(layer).double(), x.double(), double, lengths)
        ours, loop = (
            relative_errors(run_all(layer, x, state, lengths, engine=name), exact) for name in (engine, "eager")
        )
        worse = {
            name: (error, loop[name]) for name, error in ours.items() if not error <= max(1e-4, share * loop[name])
        }
        assert not worse
