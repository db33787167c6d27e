"""All of time by Newton iterations: the cell's own numbers where there is a certificate, another engine where there is none."""

import logging

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import recurra as rc
from recurra import CATALOGUE, Cell, Recurrent
from recurra.engines.choose import ENGINES, explain, order
from recurra.engines.newton import MEMORY, WHOLE, Certificate, Newton
from recurra.types import Shape
from tests.engines.fused_helpers import assert_near, everything, problem
from tests.helpers import CELLS, compare_engines, make_layer, random_state

CPU = torch.device("cpu")


@pytest.fixture
def newton(monkeypatch) -> Newton:
    """The engine with a tally of its own."""
    made = Newton()
    monkeypatch.setitem(ENGINES, "newton", made)
    return made


def certified(newton: Newton) -> Certificate:
    """What stands behind the last call, which no other engine took over."""
    assert newton.tally.refused == 0
    assert newton.tally.last is not None
    return newton.tally.last


@pytest.mark.parametrize("T", [1, 2, 7, 33])
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_every_cell_agrees_with_the_plain_loop_under_a_certificate(newton, cell: Cell, T: int):
    layer = make_layer(cell)
    x, state = torch.randn(3, T, 4, dtype=torch.float64), random_state(layer)
    compare_engines(layer, "newton", x, state)
    compare_engines(layer, "newton", x, state, torch.tensor([T // 2 + 1, 0, T]))
    assert certified(newton).residual < 1e-12


@pytest.mark.parametrize(
    ("name", "H", "T"),
    [(name, H, T) for name, H in (("gru", 70), ("lstm", 40), ("delayed", 70)) for T in (7, 33, 300)]
    + [("lstm_norm", 40, 7), ("lstm_norm", 40, 33)],  # its units hang together too much for longer ones
)
def test_large_states_converge_unit_by_unit(newton, name: str, H: int, T: int):
    torch.manual_seed(0)
    layer, x, state, lengths = problem(name, 3, T, H, with_lengths=True)
    expected = everything(layer, x, state, lengths, engine="eager", record=True)
    assert_near(everything(layer, x, state, lengths, engine="newton", record=True), expected, 1e-10)
    assert certified(newton).iterations > 2


@pytest.mark.parametrize("name", ["elman", "gru", "lstm"])
@pytest.mark.parametrize(("T", "dtype", "tolerance"), [(1_000, torch.float32, 1e-5), (65_537, torch.float64, 1e-10)])
def test_long_sequences_take_a_handful_of_iterations(newton, name: str, T: int, dtype: torch.dtype, tolerance: float):
    torch.manual_seed(0)
    layer, x, state, lengths = problem(name, 1, T, 3, with_lengths=False, dtype=dtype)
    expected = everything(layer, x, state, lengths, engine="fused")
    assert_near(everything(layer, x, state, lengths, engine="newton"), expected, tolerance)
    assert certified(newton).iterations <= 8


def trained(layer: Recurrent, x: Tensor, y: Tensor, *, classes: int, steps: int) -> float:
    """Fit a readout of the layer to labels at every step; the loss at the end."""
    readout = torch.nn.Linear(layer.hidden_size, classes)
    parameters = [*layer.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(steps):
        loss = cross_entropy(readout(layer(x).outputs).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return float(loss.detach())


def check_trained(newton: Newton, layer: Recurrent, x: Tensor) -> None:
    layer.double()
    expected = everything(layer, x.double(), engine="eager")
    assert_near(everything(layer, x.double(), engine="newton"), expected, 1e-10)
    assert certified(newton).iterations < 50


def test_a_trained_flip_flop(newton):
    torch.manual_seed(0)
    x, y = rc.data.flip_flop(64, 60, bits=1)
    layer = Recurrent("elman", 1, 16)
    assert trained(layer, x, (y[..., 0] > 0).long(), classes=2, steps=200) < 0.2
    check_trained(newton, layer, x[:4])


def test_a_trained_model_of_characters(newton):
    torch.manual_seed(0)
    text = "the cat sat on the mat. the dog sat on the log. " * 40
    alphabet = sorted(set(text))
    tokens = torch.tensor([alphabet.index(character) for character in text]).view(8, -1)
    x = torch.nn.functional.one_hot(tokens, len(alphabet)).float()
    layer = Recurrent("gru", len(alphabet), 32)
    assert trained(layer, x[:, :-1], tokens[:, 1:], classes=len(alphabet), steps=120) < 0.2
    check_trained(newton, layer, x[:2])


def test_a_chaotic_network_is_refused_and_another_engine_runs_it(newton, caplog):
    torch.manual_seed(0)
    layer = Recurrent("elman", 3, 32, dtype=torch.float64)
    with torch.no_grad():
        layer.weight("U.h").normal_(std=4 / 32**0.5)
    x = torch.randn(2, 200, 3, dtype=torch.float64)
    with caplog.at_level(logging.INFO, logger="recurra.engines"):
        found = everything(layer, x, engine="newton")
    assert "newton: elman over 200 steps has no certificate" in caplog.text
    assert caplog.text.rstrip().endswith("fused runs it, as 1 of 1 calls so far")
    for name, value in everything(layer, x, engine="fused").items():
        assert torch.equal(found[name], value), name
    assert (newton.tally.calls, newton.tally.refused) == (1, 1)
    said = explain("newton", CATALOGUE["elman"], CPU, torch.float64, Shape(2, 200, 3, 32)).answers["newton"].how
    assert said.startswith("whole Jacobians of 32 values. 1 of 1 calls went to another engine; last: ")


def test_a_start_far_from_the_trajectory_is_damped(newton):
    """Whole corrections leave the finite numbers here; smaller ones arrive."""
    torch.manual_seed(0)
    layer = make_layer(CATALOGUE["elman"](activation="relu"), hidden_size=6)
    with torch.no_grad():
        layer.weight("U.h").mul_(1.4)
    x = torch.randn(1, 40, 4, dtype=torch.float64)
    compare_engines(layer, "newton", x, random_state(layer, 1))


@pytest.mark.parametrize(("name", "H"), [("elman", 100), ("gru", 70), ("elman", 16)])
def test_a_certificate_is_relative_to_the_size_of_what_it_certifies(newton, name: str, H: int):
    """A trajectory of tiny numbers is held to as many digits as one of large ones."""
    torch.manual_seed(0)
    layer, x = Recurrent(name, 4, H, dtype=torch.float64), 1e-12 * torch.randn(1, 100, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.stack[0][0].b.zero_()
        layer.engine = "newton"
        found = layer(x).outputs
        layer.engine = "eager"
        expected = layer(x).outputs
    assert (found - expected).abs().max() < 1e-9 * expected.abs().max()


@rc.cell
def rectified(x, U, h):
    return 0.9 * rc.relu(x.h + U.h(h)) + 0.1 * h


def test_what_has_no_slope_where_it_begins_does_not_stay_there(newton):
    """relu has slope 0 at 0: after one iteration nothing has moved, and that is no trajectory."""
    layer = Recurrent(rectified, 1, 8, dtype=torch.float64)
    with torch.no_grad():
        one = layer.stack[0][0]
        one.W.fill_(1)
        one.b.zero_()
        one.U.copy_(1.2 * torch.eye(8).roll(1, 0))
    x = torch.zeros(1, 150, 1, dtype=torch.float64)
    x[0, 0] = 1e-6
    compare_engines(layer, "newton", x)


def test_partial_derivatives_that_choose_have_the_precision_of_the_rest():
    """where(c, 1, 0) has torch's default dtype; a number times it would be rounded to float32."""

    @rc.cell
    def bent(x, U, h):
        return 0.4 * rc.relu(h) + x.h

    compare_engines(Recurrent(bent, 2, 3, dtype=torch.float64), "newton", torch.randn(2, 9, 2, dtype=torch.float64))


def test_second_derivatives_are_those_of_the_plain_loop():
    layer = make_layer("gru")
    x = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    found = []
    for layer.engine in ("newton", "eager"):
        (first,) = torch.autograd.grad(layer(x).outputs.square().sum(), x, create_graph=True)
        found += torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)


def test_what_it_does_not_take_is_refused_with_the_reason(newton):
    def reason(name: str, shape: Shape, dtype: torch.dtype = torch.float32) -> str:
        return newton.supports(CATALOGUE[name], CPU, dtype, shape).reason

    assert reason("gru", Shape(1, 9, 4, 5), torch.bfloat16) == "it computes in float32 and float64, not torch.bfloat16"
    long = MEMORY // WHOLE**2 + 1
    assert reason("gru", Shape(1, long, 4, WHOLE)).startswith(f"the Jacobians of {long} steps of 1 rows have 1.1e+09")
    assert not reason("gru", Shape(1, long, 4, WHOLE + 1))
    assert reason("delayed", Shape(1, 9, 4, WHOLE)) == ""


def test_auto_never_takes_it():
    for shape in (Shape(1, 65_536, 4, 4), Shape(64, 9, 4, 500)):
        assert order(CATALOGUE["gru"], CPU, torch.float32, shape)[-1] == "newton"
