"""The elementwise mathematics of the compiled kernels: exact to a few units in the last place, also at the extremes.

One cell has a state for each function, all of the same drive; with W = 1 and b = 0 the drive is the input itself. The
table of measured errors in docs/engines.md comes from `measure`.
"""

import functools

import pytest
import torch

from recurra import (
    Recurrent,
    cell,
    clamp,
    cos,
    erf,
    exp,
    floor,
    log,
    maximum,
    minimum,
    relu,
    sigmoid,
    sign,
    sin,
    softplus,
    sqrt,
    tanh,
    where,
)

SINGLE, DOUBLE = torch.float32, torch.float64


@cell
def curves(x, U, exponential, squash, gate, plus, logarithm, root, sine, cosine, error):
    v = x.v
    return exp(v), tanh(v), sigmoid(v), softplus(v), log(v), sqrt(v), sin(v), cos(v), erf(v)


REFERENCES = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": lambda v: torch.logaddexp(v, torch.zeros_like(v)),
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
}
BOUNDS = {  # in units of the last place; the reference in float64 is itself good to one
    "exp": 2.0,
    "tanh": 4.0,
    "sigmoid": 3.0,
    "softplus": 3.0,
    "log": 2.0,
    "sqrt": 1.0,
    "sin": 2.0,
    "cos": 2.0,
    "erf": 2.0,
}


def arguments(dtype: torch.dtype) -> torch.Tensor:
    """From the smallest to the largest numbers of both signs, densely where the functions bend, and NaN."""
    info = torch.finfo(dtype)
    smallest, largest = -1074 if dtype == DOUBLE else -149, 1023 if dtype == DOUBLE else 127
    wide = torch.exp2(torch.linspace(smallest, largest + 0.99, 4001, dtype=DOUBLE))
    dense = torch.cat([torch.linspace(-25, 25, 4001), torch.linspace(-1, 1, 4001), torch.linspace(-800, 800, 4001)])
    special = torch.tensor(
        [0.0, -0.0, info.max, info.min, info.tiny, info.eps, float("inf"), -float("inf"), float("nan")]
    )
    return torch.cat([wide, -wide, dense.double(), special.double()]).to(dtype)


@functools.cache
def values(dtype: torch.dtype) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The arguments and what the kernels make of them: `[N, 17]` each, units of a full vector and of a partial one."""
    v = arguments(dtype)
    layer = Recurrent(curves, 1, 17, dtype=dtype, engine="fused")
    with torch.no_grad():
        layer.stack[0][0].W.fill_(1)
        layer.stack[0][0].b.zero_()
        finals = layer(v[:, None, None]).final[0][0]
    return v, dict(zip(REFERENCES, finals, strict=True))


def unit(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbouring numbers at the reference; next to zero, twice the smallest normal number.

    There sigmoid stands still, and numbers that are not normal have fewer digits anyhow.
    """
    least = 2 * torch.finfo(dtype).tiny
    exponent = torch.floor(torch.log2(reference.abs().clamp(min=least)))
    return torch.where(reference.abs() < least, least, torch.exp2(exponent) * torch.finfo(dtype).eps)


def measure(name: str, dtype: torch.dtype) -> float:
    """The largest error over all finite results, in units of the last place."""
    v, found = values(dtype)
    reference = REFERENCES[name](v.double())
    finite = reference.isfinite() & (reference.abs() <= torch.finfo(dtype).max)
    errors = (found[name][:, 0].double() - reference)[finite].abs() / unit(reference[finite], dtype)
    return float(errors.max())


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_errors_stay_within_the_bound(name, dtype):
    assert measure(name, dtype) <= BOUNDS[name]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_infinities_and_nan(name, dtype):
    v, found = values(dtype)
    reference = REFERENCES[name](v.double()).to(dtype)
    ours = found[name][:, 0]
    assert torch.equal(ours.isnan(), reference.isnan())
    edge = torch.finfo(dtype).max * (1 - 1e-5)  # whether the last number before infinity rounds up is not asked
    beyond = reference.isinf() & ~(REFERENCES[name](v.double()).abs() <= torch.finfo(dtype).max * (1 + 1e-5))
    assert torch.equal(ours[beyond], reference[beyond])
    assert not ours[reference.abs() < edge].isinf().any()


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_every_unit_of_a_row_computes_the_same(name, dtype):
    """17 units: whole vectors and a rest of one."""
    _, found = values(dtype)
    first = found[name][:, :1].expand_as(found[name])
    assert torch.equal(found[name].nan_to_num(nan=0.5), first.nan_to_num(nan=0.5))


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf"])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_squashes_stay_in_their_range_and_rise(name, dtype):
    v, found = values(dtype)
    order = v[~v.isnan()].argsort()
    sorted_values = found[name][:, 0][~v.isnan()][order].double()
    assert sorted_values.max() == 1.0
    if name == "sigmoid":
        assert 0 <= sorted_values.min() <= 2 * torch.finfo(dtype).tiny
    else:
        assert sorted_values.min() == -1.0
    slack = 4 * torch.finfo(dtype).eps
    assert (sorted_values.diff() >= -slack).all()


@cell
def corners(x, U, low, high, held, rectified, size, direction, whole, rest, power, integer_power, choice):
    a, b = x.a, x.b
    return (
        *(minimum(a, b), maximum(a, b), clamp(a, -1.5, 2.5), relu(a), abs(a), sign(a), floor(a)),
        *(a % b, abs(a) ** b, a**3.0, where((a < b) | (a == b), a, -b)),
    )


def test_corners_are_those_of_torch():
    """Ties, signs of remainders, powers of negative numbers: the same as torch computes."""
    grid = torch.tensor([-7.5, -3.0, -1.5, -1.0, -0.25, 0.25, 1.0, 2.0, 2.5, 3.0, 7.25], dtype=DOUBLE)
    x = torch.cartesian_prod(grid, grid)[:, None]
    layer = Recurrent(corners, 2, 5, dtype=DOUBLE)
    results = []
    with torch.no_grad():
        layer.stack[0][0].W.copy_(torch.tensor([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5))
        layer.stack[0][0].b.zero_()
        for engine in ("fused", "eager"):
            layer.engine = engine
            results.append(layer(x).final[0][0])
    for name, found, expected in zip(corners.states, *results, strict=True):
        torch.testing.assert_close(
            found, expected, rtol=1e-15, atol=0, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
        )
