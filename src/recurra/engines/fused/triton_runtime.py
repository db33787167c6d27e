"""What generated Triton kernels call: mathematics, and values that programs hand to one another through memory.

Programs wait for each other by spinning on a sentinel, `UNWRITTEN`; `gpu_kernel` says why that is enough.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def peek(at, here):
    """The bits at these addresses as they are now, past the first-level cache, which does not see what others store."""
    return tl.load(at, mask=here, other=0, volatile=True)


@triton.jit
def wait(at, here, UNWRITTEN: tl.constexpr):
    """The bits at these addresses, once all of them are written."""
    bits = peek(at, here)
    while tl.max(bits) == UNWRITTEN:
        bits = peek(at, here)
    return bits


@triton.jit
def put(at, value, here, DTYPE: tl.constexpr, UNWRITTEN: tl.constexpr):
    """Store a value that others wait for; a NaN that looks unwritten becomes another NaN."""
    bits = value.to(DTYPE).to(at.dtype.element_ty, bitcast=True)
    tl.store(at, tl.where(bits == UNWRITTEN, UNWRITTEN - 1, bits).to(at.dtype.element_ty), mask=here)


@triton.jit
def laid_out(v):
    """A layout conversion: from the layout in which the matrix unit leaves its results to that of loads and stores. Done once
    here, the compiler does not do it at every load and store of the step."""
    return tl.gather(v, tl.broadcast_to(tl.arange(0, v.shape[1])[None, :], v.shape), 1)


@triton.jit
def sigmoid(v):
    return 1.0 / (1.0 + tl.exp(-v))


@triton.jit
def tanh(v):
    """1 − 2 / (e²ᵛ + 1); near zero, where that loses digits, the first terms of the series."""
    square = v * v
    near = v * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 - square * (17.0 / 315.0))))
    return tl.where(square < 0.01, near, 1.0 - 2.0 / (tl.exp(2.0 * v) + 1.0))


@triton.jit
def relu(v):
    return tl.where(v < 0.0, 0.0, v)


@triton.jit
def softplus(v):
    return tl.where(v > 0.0, v, 0.0) + log1p(tl.exp(-tl.abs(v)))


@triton.jit
def log1p(v):
    """For v between 0 and 1: log(u) · v / (u − 1) with u = 1 + v loses nothing that rounding of u lost."""
    u = 1.0 + v
    return tl.where(u == 1.0, v, tl.log(u) * (v / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def sign(v):
    return tl.where(v > 0.0, 1.0, tl.where(v < 0.0, -1.0, v))


@triton.jit
def minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def clamp(v, low, high):
    return minimum(maximum(v, low), high)


@triton.jit
def remainder(a, b):
    return a - b * tl.floor(a / b)


@triton.jit
def power(a, b):
    """aᵇ; a negative base has a value where the exponent is whole."""
    size = tl.exp2(b * tl.log2(tl.abs(a)))
    odd = tl.abs(b - 2.0 * tl.floor(b / 2.0)) == 1.0
    signed = tl.where(odd & (a < 0.0), -size, size)
    whole = b == tl.floor(b)
    value = tl.where((a < 0.0) & (whole == 0), float("nan"), signed)
    return tl.where(b == 0.0, 1.0, value)
