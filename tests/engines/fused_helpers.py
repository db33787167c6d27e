"""What the tests of the fused engine share: layers that neither die nor explode over long runs, and whole runs by name."""

import math

import torch
from hypothesis import assume
from torch import Tensor

from recurra import (
    Cell,
    Fixed,
    Groups,
    Learned,
    Recurrent,
    ago,
    cell,
    clamp,
    cos,
    exp,
    maximum,
    minimum,
    norm,
    relu,
    sigmoid,
    softplus,
    tanh,
    where,
)
from recurra.engines.fused import gpu
from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.protocol import YES, Run, Support, Weights
from tests.helpers import flatten, random_state


@cell
def echo(x, U, h, trace, *, decay=Learned(0.8, low=0, high=1)):
    """States read at three depths, one of them within a product, the other only far back."""
    far = U.far(ago(h, 4) * ago(trace, 2))
    return tanh(x.h + U.h(h) - 0.5 * ago(h, 3) + far), decay * ago(trace, 3) + (1 - decay) * h


@cell
def tower(x, U, h, *, depth_gain=Learned(0.5)):
    """Products of products of products: four passes forward and as many backward."""
    first = tanh(x.a + U.a(h))
    second = sigmoid(x.b + U.b(first))
    third = tanh(U.c(second * first) + depth_gain * h)
    return tanh(U.d(third) + first - second)


@cell
def crossed(x, U, h, c, m):
    """Matrices shared between stages and states, a product of a drive, and states that exchange their values."""
    a = U.w(h) + U.v(c)
    b = U.w(tanh(a + x.p)) + U.v(x.q)
    return tanh(b) * sigmoid(U.g(m)), tanh(a - m), 0.5 * (h + c)


@cell
def banded(x, U, h, c, *, low=Fixed(Groups([-0.5, -0.25])), width=Learned(0.6, low=0)):
    """Normalised products with minima, maxima, conditions and a clamp on either side of them."""
    gate = norm(U.g(h) + x.g, "g")
    held = minimum(maximum(gate, low), low + width)
    spread = norm(U.s(held) * x.s)
    new = where((spread > 0.1) & ~(held < c), clamp(spread, -0.8, 0.8), 0.5 * c - relu(held))
    return tanh(new), 0.9 * c + 0.1 * held


@cell
def mixer(x, U, h, *, tilt=Learned(0.1)):
    """Products of drives and of products, quotients, and the same argument in two groups of one pass."""
    u = U.u(h) * U.v(h) + x.a * x.b
    w = U.u(u) / (1 + exp(-x.a)) + U.v(x.a * h)
    return tanh(u + w / softplus(2 + cos(tilt * h)))


@cell
def counter(x, U, h, n):
    """A state that nothing but itself enters, one product of a mere count, and an output without a drive."""
    return 0.5 * tanh(U.h(h) + U.n(cos(0.3 * n))) + 0.25 * h, n + 1


MIXTURES: dict[str, Cell] = {each.name: each for each in (echo, tower, crossed, banded, mixer, counter)}


def tame_layer(cell: Cell | str, D: int, H: int, dtype: torch.dtype = torch.float64, **options: object) -> Recurrent:
    """A layer of random weights whose matrices shrink: 257 steps neither explode nor amplify rounding.

    All values are numbers of float32, so that the layer is the same in both dtypes.
    """
    layer = Recurrent(cell, D, H, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.ndim == 2 and not layer.cell.graph.constraints:
                parameter.normal_(std=0.6 / math.sqrt(parameter.shape[1]))
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.float().to(dtype)


def everything(
    layer: Recurrent,
    x: Tensor,
    state: object = None,
    lengths: object = None,
    *,
    engine: str,
    record: bool = False,
) -> dict[str, Tensor]:
    """Outputs, final states, the record and all gradients of one run, by name."""
    layer.engine = engine
    layer.zero_grad()
    x = x.detach().requires_grad_()
    starts = [s.detach().clone().requires_grad_() for s in flatten(state)] if state else []
    torch.manual_seed(7)
    trace = layer(x, ((tuple(starts),),) if state else None, lengths, record=record)
    values = {"outputs": trace.outputs} | {f"final {k}": s for k, s in enumerate(flatten(trace.final))}
    if record:
        values |= {f"record of {name}": gate for name, gate in trace.record[0][0].items()}
    draw = torch.Generator().manual_seed(1)
    weights = [torch.randn(v.shape, generator=draw, dtype=torch.float64).to(v) for v in values.values()]
    torch.autograd.backward(list(values.values()), weights)
    results = {name: value.detach() for name, value in values.items()}
    leaves = {"x": x} | {f"state {k}": s for k, s in enumerate(starts)} | dict(layer.named_parameters())
    for name, leaf in leaves.items():
        results[f"gradient of {name}"] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.clone()
    return results


def problem(cell: Cell | str, B: int, T: int, H: int, *, with_lengths: bool, dtype: torch.dtype = torch.float64):
    """A tame layer, an input, a state and lengths (full, empty and in between), all exact in both dtypes."""
    D = 3 if H != 3 else 2
    layer = tame_layer(cell, D, H, dtype)
    x = torch.randn(B, T, D).to(dtype)
    state = tuple(
        tuple(tuple(s.detach().float().to(dtype) for s in one) for one in each) for each in random_state(layer, B)
    )
    lengths = torch.tensor([(T, 0, T // 2 + 1, 1)[row % 4] for row in range(B)]) if with_lengths else None
    return layer, x, state, lengths


def errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """For each value the norm of the difference to the norm of the value (at least 1)."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert found[name].isfinite().all(), f"{name} is not finite"
    return {
        name: float((found[name].double() - value.double()).norm()) / max(float(value.double().norm()), 1.0)
        for name, value in expected.items()
    }


def assert_near(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    wrong = {name: error for name, error in errors(found, expected).items() if not error <= tolerance}
    assert not wrong, f"further away than {tolerance:.0e}: {wrong}"


def check_against_eager(cell: Cell | str, B: int, T: int, H: int, dtype: torch.dtype, **options: bool) -> None:
    """The fused engine in `dtype` against the plain loop in float64."""
    record, chaotic = options.pop("record", False), options.pop("may_be_chaotic", False)
    torch.manual_seed(B + 10 * T + 1000 * H)
    layer, x, state, lengths = problem(cell, B, T, H, **options)
    expected = everything(layer, x, state, lengths, engine="eager", record=record)
    layer, x = layer.to(dtype), x.to(dtype)
    state = tuple(tuple(tuple(s.to(dtype) for s in one) for one in each) for each in state)
    found = everything(layer, x, state, lengths, engine="fused", record=record)
    tolerance = 1e-10
    if chaotic:  # as far as the plain loop itself goes when the state is changed by one rounding
        nudged = tuple(tuple(tuple(s * (1 + 2.0**-52) for s in one) for one in each) for each in state)
        moved = everything(layer, x, nudged, lengths, engine="eager", record=record)
        tolerance = max(tolerance, 20 * max(errors(moved, expected).values()))
        assume(tolerance < 1e-6)  # beyond that the two can only be compared on shorter runs
    if dtype == torch.float32:
        # some cells lose more digits by themselves, such as a norm over few units: then so does the plain loop
        plain = everything(layer, x, state, lengths, engine="eager", record=record)
        tolerance = max(1e-5, 4 * max(errors(plain, expected).values()))
    assert_near(found, expected, tolerance)


class Tiled:
    """The generated GPU kernels with given tiles, as an engine on tensors of any device; results are float32."""

    name = "tiled"

    def __init__(self, forward: Tiles, backward: Tiles, dtype: torch.dtype = torch.float32):
        self.tiles, self.dtype = (forward, backward), dtype

    def supports(self, *asked: object, **options: object) -> Support:
        return YES

    def run(self, cell: Cell, weights: Weights, x: Tensor, initial, lengths, *, record: bool = False) -> Run:
        run = gpu.run_tiled(cell, weights, x, initial, lengths, record=record, dtype=self.dtype, tiles=self.tiles)
        states = None if run.states is None else tuple(each.float() for each in run.states)
        return Run(run.outputs.float(), tuple(each.float() for each in run.final), states)
