"""Jacobians from the graph equal autograd's, for every cell, delays and stacks included."""

import pytest
import torch

from recurra import CATALOGUE, Recurrent, cell, clamp, maximum, relu, where
from recurra.analysis.jacobians import StepMap
from recurra.errors import OptionError
from recurra.layers.recurrent import State
from tests.helpers import autonomous


@cell
def odd(x, U, h, m):
    """Choices, a product of a product, and a state that is copied."""
    a = relu(x.a + U.a(h)) * clamp(m, -0.5, 0.5)
    n = U.n(maximum(a, h)) + where(m > 0.0, h * h, U.k(m) / (2.0 + h * h))
    return n, h


def made(name, layers: int, residual: bool) -> Recurrent:
    torch.manual_seed(1)
    layer = Recurrent(name, 3, 5, layers=layers, residual=residual, engine="eager").double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return layer


@pytest.mark.parametrize(("layers", "residual"), [(1, False), (2, False), (3, True)])
@pytest.mark.parametrize("name", [*CATALOGUE, "skip(d=3)", odd, autonomous], ids=str)
def test_equal_to_autograd(name, layers: int, residual: bool) -> None:
    layer = made(name, layers, residual)
    F = StepMap(layer)
    s, x = torch.randn(3, F.size, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    step = F.step(s, x)

    def run(s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.pack(layer.step(x[None], F.unpack(s[None]))[1])[0]

    for k in range(len(s)):
        of_state, of_input = torch.autograd.functional.jacobian(run, (s[k], x[k]))
        torch.testing.assert_close(step.next[k], run(s[k], x[k]).detach(), rtol=0, atol=1e-10)
        torch.testing.assert_close(step.state[k], of_state, rtol=0, atol=1e-10)
        torch.testing.assert_close(step.input[k], of_input, rtol=0, atol=1e-10)
    torch.testing.assert_close(F(s, x), step.next, rtol=0, atol=0)


def test_pack_and_unpack_are_opposites() -> None:
    layer = made("skip(d=3)", 2, False)
    F = StepMap(layer)
    state: State = layer(torch.randn(4, 6, 3, dtype=torch.float64)).final
    back = F.unpack(F.pack(state))
    for one, other in zip(state, back, strict=True):
        for a, b in zip(one[0], other[0], strict=True):
            assert torch.equal(a, b)


def test_visited_states_are_those_of_the_layer() -> None:
    layer = made("lstm", 2, False)
    F = StepMap(layer)
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    found = F.visited(x)
    torch.testing.assert_close(found[:, -1], F.pack(layer(x).final), rtol=0, atol=1e-12)


def test_two_directions_are_refused() -> None:
    with pytest.raises(OptionError, match="bidirectional"):
        StepMap(Recurrent("gru", 2, 3, bidirectional=True))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", [*CATALOGUE, "skip(d=3)", odd], ids=str)
def test_the_part_that_units_read_for_themselves(name, layers: int) -> None:
    F = StepMap(made(name, layers, False))
    if F.local is None:
        return
    J = F.step(torch.randn(3, F.size, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)).state
    blocks = J[..., F.local].unflatten(1, (-1, F.hidden_size))
    torch.testing.assert_close(blocks, blocks * torch.eye(F.hidden_size), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "layers", "local"),
    [("lstm", 1, slice(5, 10)), ("lstm", 2, slice(15, 20)), ("lstm_peephole", 1, slice(5, 10)), ("gru", 1, None)],
)
def test_where_that_part_stands(name: str, layers: int, local: slice | None) -> None:
    assert StepMap(made(name, layers, False)).local == local
