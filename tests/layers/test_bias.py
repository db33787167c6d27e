"""Layers without bias, and cells as some lectures write them: the same on every engine that runs them."""

import pytest
import torch
from torch import sigmoid, tanh

from recurra import Recurrent


@pytest.mark.parametrize("engine", ["eager", "fused"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_without_bias_the_drives_are_products_alone(cell: str, engine: str) -> None:
    torch.manual_seed(0)
    plain, zero = (Recurrent(cell, 3, 5, layers=2, bias=bias, engine=engine) for bias in (False, True))
    with torch.no_grad():
        for own, other in zip(plain.stack, zero.stack, strict=True):
            other[0].W.copy_(own[0].W)
            other[0].U.copy_(own[0].U)
            other[0].b.zero_()
    assert not any(name.endswith(".b") for name in plain.state_dict())
    x = torch.randn(4, 7, 3)
    for layers in (plain, zero):
        layers(x).outputs.square().sum().backward()
    torch.testing.assert_close(plain(x).outputs, zero(x).outputs)
    torch.testing.assert_close(plain.stack[0][0].U.grad, zero.stack[0][0].U.grad)
    assert plain.stack[0][0].b.grad is None
    assert not plain.stack[1][0].b.any()


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_an_lstm_may_write_what_a_sigmoid_gives(engine: str) -> None:
    torch.manual_seed(0)
    layer = Recurrent("lstm(candidate=sigmoid)", 3, 5, engine=engine, dtype=torch.float64)
    direction = layer.stack[0][0]
    drives = list(direction.cell.graph.drives)
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    h = c = torch.zeros(2, 5, dtype=torch.float64)
    for t in range(6):
        parts = (x[:, t] @ direction.W.T + direction.b).split(5, dim=-1)
        net = {name: part + h @ direction.matrix(name).T for name, part in zip(drives, parts, strict=True)}
        c = sigmoid(net["f"]) * c + sigmoid(net["i"]) * sigmoid(net["c"])
        h = sigmoid(net["o"]) * tanh(c)
    torch.testing.assert_close(layer(x).outputs[:, -1], h)
