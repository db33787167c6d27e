"""Mixed precision: which dtype engines are asked about, and that what a layer returns it takes back."""

from contextlib import contextmanager

import pytest
import torch

from recurra import EngineError, Recurrent, ShapeError, find_cell
from recurra.engines.choose import ENGINES, choose, computed_dtype, explain
from recurra.types import Shape
from tests.helpers import CELLS, B, D, H, flatten

CPU_ENGINES = [
    name
    for name, engine in ENGINES.items()
    if engine.supports(find_cell("lstm"), torch.device("cpu"), torch.float32, Shape(B, 7, D, H))
]
GPU = torch.device("cuda")


@contextmanager
def autocast_of_cuda(dtype):
    """What `torch.autocast("cuda", dtype)` sets, on a machine without a GPU too."""
    was, before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", was)
        torch.set_autocast_dtype("cuda", before)


def test_engines_are_asked_about_the_dtype_that_is_computed_in():
    assert computed_dtype(GPU, torch.float32) == torch.float32
    with autocast_of_cuda(torch.bfloat16):
        assert computed_dtype(GPU, torch.float32) == torch.bfloat16
        assert computed_dtype(torch.device("cpu"), torch.float32) == torch.float32
    layer = Recurrent("lstm", D, H)
    outside = str(layer.explain())
    with torch.autocast("cpu", torch.bfloat16):  # layers leave autocast on a CPU
        assert computed_dtype(torch.device("cpu"), torch.float32) == torch.float32
        assert str(layer.explain()) == outside


@pytest.mark.parametrize("cell", ["lstm", "gru_after", "elman"])
def test_vendor_says_no_where_autocast_would_run_it_in_float16(cell):
    vendor, shape = ENGINES["vendor"], Shape(40, 70, 400, 1152)
    assert vendor.supports(find_cell(cell), GPU, torch.bfloat16, shape)  # weights in bfloat16 are cuDNN's own
    with autocast_of_cuda(torch.bfloat16):
        answer = vendor.supports(find_cell(cell), GPU, computed_dtype(GPU, torch.float32), shape)
        assert not answer
        assert (
            answer.reason
            == "torch's autocast runs cuDNN's recurrent kernels in float16, and torch.bfloat16 was asked for"
        )
        with pytest.raises(
            EngineError, match=r"engine 'vendor' cannot run cell .*float16, and torch\.bfloat16 was asked for"
        ):
            choose("vendor", find_cell(cell), GPU, torch.bfloat16, shape)
    with autocast_of_cuda(torch.float16):
        assert vendor.supports(find_cell(cell), GPU, computed_dtype(GPU, torch.float32), shape)


def test_a_layer_asks_in_autocasts_dtype(monkeypatch):
    """The layer's own weights say which device is asked about; here they only seem to be on a GPU."""
    asked = []

    def supports(cell, device, dtype, shape, *, record=False):
        asked.append((device.type, dtype))
        return ENGINES["eager"].supports(cell, device, dtype, shape, record=record)

    monkeypatch.setattr("recurra.layers.recurrent.computed_dtype", lambda device, dtype: computed_dtype(GPU, dtype))
    monkeypatch.setattr(ENGINES["fused"], "supports", supports, raising=False)
    with autocast_of_cuda(torch.bfloat16):
        Recurrent("lstm", D, H).explain()
    assert set(asked) == {("cpu", torch.bfloat16)}
    assert (
        explain("auto", find_cell("lstm"), torch.device("cpu"), torch.float32, Shape(1, 1, D, H)).engine.name == "fused"
    )


@pytest.mark.parametrize("engine", CPU_ENGINES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_a_layer_returns_under_autocast_it_takes_back(engine, dtype):
    torch.manual_seed(0)
    layer = Recurrent("lstm", D, H, layers=2, engine=engine)
    x = torch.randn(B, 9, D)
    expected = layer(x)
    with torch.autocast("cpu", dtype):
        lower = x.to(dtype)
        first = layer(lower[:, :4])
        second = layer(x[:, 4:], first.final)  # inputs in float32, as of an embedding
        (first.outputs.float().sum() + second.outputs.float().sum()).backward()
    assert layer.stack[0][0].W.grad.dtype == torch.float32
    torch.testing.assert_close(second.outputs.float(), expected.outputs[:, 4:], atol=0.05, rtol=0.05)
    layer(x, second.final)  # out of autocast
    y, state = layer.step(x[:, 0], second.final)
    with torch.autocast("cpu", dtype):
        layer.step(y.new_zeros(B, D), state)
        layer.engine = "auto"
        assert layer(lower, record=True, lengths=[9, 2, 0]).record is not None


@pytest.mark.parametrize("engine", CPU_ENGINES)
@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("given", [torch.bfloat16, torch.float16, torch.float32])
def test_states_of_mixed_precision(engine, autocast, given):
    torch.manual_seed(0)
    layer = Recurrent("lstm", D, H, engine=engine)
    x, state = torch.randn(B, 3, D), tuple(torch.randn(B, H).to(given).requires_grad_() for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        trace = layer(x, ((state,),))
        layer(x, trace.final)
    same = layer(x, ((tuple(each.float() for each in state),),))
    assert torch.equal(trace.outputs, same.outputs)
    trace.outputs.sum().backward()
    assert all(each.grad is not None and each.grad.dtype == given for each in state)


@pytest.mark.parametrize("cell", ["lstm", "skip", "clockwork", "lstm_norm", "lru"])
def test_weights_of_low_precision_take_a_state_of_float32(cell):
    layer = Recurrent(CELLS[cell], D, H, dtype=torch.bfloat16)
    x = torch.randn(B, 3, D, dtype=torch.bfloat16)
    trace = layer(x)
    wide = tuple(tuple(tuple(each.float() for each in one) for one in each) for each in trace.final)
    again = layer(x, wide)
    assert torch.equal(again.outputs, layer(x, trace.final).outputs)
    assert all(each.dtype == torch.bfloat16 for each in flatten(again.final))


def test_double_precision_is_not_mixed():
    with pytest.raises(ShapeError, match=r"state 'h' of gru is torch\.float32 on cpu; the weights are torch\.float64"):
        Recurrent("gru", D, H, dtype=torch.float64)(
            torch.randn(B, 2, D, dtype=torch.float64), (((torch.zeros(B, H),),),)
        )
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ShapeError, match=r"got inputs in torch\.int64"):
        Recurrent("gru", D, H)(torch.zeros(B, 2, D, dtype=torch.int64))
