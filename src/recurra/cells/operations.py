"""The elementwise operations of the notation: each with its value in PyTorch and its partial derivatives.

One row serves the plain loop (`value`), the adjoint and the Jacobian (`partials`), the printed equations (`text`) and the
formulas of the documentation (`latex`). A partial derivative is written with the same operations, as a function of the
result `y` and the arguments, so it works on tensors and on symbols alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Value = Any
"""A tensor, a symbol of a cell that is being read, or a number."""


class Expression(ABC):
    """Something with arithmetic: an operation on it is recorded by `operate` instead of computed."""

    __hash__ = object.__hash__

    @abstractmethod
    def operate(self, name: str, arguments: tuple[Value, ...]) -> Expression: ...

    def __add__(self, other: Value) -> Expression:
        return self.operate("add", (self, other))

    def __radd__(self, other: Value) -> Expression:
        return self.operate("add", (other, self))

    def __sub__(self, other: Value) -> Expression:
        return self.operate("subtract", (self, other))

    def __rsub__(self, other: Value) -> Expression:
        return self.operate("subtract", (other, self))

    def __mul__(self, other: Value) -> Expression:
        return self.operate("multiply", (self, other))

    def __rmul__(self, other: Value) -> Expression:
        return self.operate("multiply", (other, self))

    def __truediv__(self, other: Value) -> Expression:
        return self.operate("divide", (self, other))

    def __rtruediv__(self, other: Value) -> Expression:
        return self.operate("divide", (other, self))

    def __mod__(self, other: Value) -> Expression:
        return self.operate("remainder", (self, other))

    def __rmod__(self, other: Value) -> Expression:
        return self.operate("remainder", (other, self))

    def __pow__(self, other: Value) -> Expression:
        return self.operate("power", (self, other))

    def __rpow__(self, other: Value) -> Expression:
        return self.operate("power", (other, self))

    def __neg__(self) -> Expression:
        return self.operate("negate", (self,))

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return self.operate("abs", (self,))

    def __lt__(self, other: Value) -> Expression:
        return self.operate("less", (self, other))

    def __le__(self, other: Value) -> Expression:
        return self.operate("less_equal", (self, other))

    def __gt__(self, other: Value) -> Expression:
        return self.operate("less", (other, self))

    def __ge__(self, other: Value) -> Expression:
        return self.operate("less_equal", (other, self))

    def __eq__(self, other: Value) -> Any:
        return self.operate("equal", (self, other))

    def __ne__(self, other: Value) -> Any:
        return self.operate("not", (self.operate("equal", (self, other)),))

    def __and__(self, other: Value) -> Expression:
        return self.operate("and", (self, other))

    def __or__(self, other: Value) -> Expression:
        return self.operate("or", (self, other))

    def __invert__(self) -> Expression:
        return self.operate("not", (self,))


@dataclass(frozen=True)
class Operation:
    """One elementwise operation: `value` on tensors, one partial derivative per argument, and how it is written.

    `partials[i](y, *arguments)` is ∂y/∂argument_i; `None` where it is zero everywhere (conditions, `floor`).
    """

    name: str
    value: Callable[..., Tensor]
    partials: tuple[Callable[..., Value] | None, ...]
    text: str
    latex: str
    precedence: int = 9  # 9 binds like a call; as in Python, comparisons bind loosest
    is_condition: bool = False


def _paired(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Value, Value], Tensor]:
    """`function` with a number allowed in either place; torch asks for two tensors."""

    def call(a: Value, b: Value) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        return function(
            torch.as_tensor(a, dtype=like.dtype, device=like.device),
            torch.as_tensor(b, dtype=like.dtype, device=like.device),
        )

    return call


def _where(condition: Value, a: Value, b: Value) -> Tensor:
    if isinstance(condition, bool):
        raise TypeError("where() takes a condition on tensors, not a Python bool")
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return torch.where(condition, float(a), float(b)).to(torch.get_default_dtype())
    return torch.where(condition, a, b)


def _softplus(v: Tensor) -> Tensor:
    return torch.logaddexp(v, torch.zeros_like(v))  # F.softplus turns linear past 20 and is off by 2e-9 there


# At a tie torch gives half of the gradient to each argument of minimum and maximum.
_first_is_smaller = lambda y, a, b: where(a < b, 1.0, where(b < a, 0.0, 0.5))  # noqa: E731
_first_is_larger = lambda y, a, b: where(b < a, 1.0, where(a < b, 0.0, 0.5))  # noqa: E731
_second_is_smaller = lambda y, a, b: _first_is_smaller(y, b, a)  # noqa: E731
_second_is_larger = lambda y, a, b: _first_is_larger(y, b, a)  # noqa: E731

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("add", lambda a, b: a + b, (lambda y, a, b: 1.0, lambda y, a, b: 1.0), "{0} + {1}", "{0} + {1}", 5),
        Operation(
            "subtract", lambda a, b: a - b, (lambda y, a, b: 1.0, lambda y, a, b: -1.0), "{0} - {1}", "{0} - {1}", 5
        ),
        Operation(
            "multiply", lambda a, b: a * b, (lambda y, a, b: b, lambda y, a, b: a), "{0} * {1}", r"{0} \odot {1}", 6
        ),
        Operation(
            "divide",
            lambda a, b: a / b,
            (lambda y, a, b: 1.0 / b, lambda y, a, b: -y / b),
            "{0} / {1}",
            r"{0} / {1}",
            6,
        ),
        Operation(
            "remainder",
            torch.remainder,
            (lambda y, a, b: 1.0, lambda y, a, b: -floor(a / b)),
            "{0} % {1}",
            r"{0} \bmod {1}",
            6,
        ),
        Operation("negate", lambda a: -a, (lambda y, a: -1.0,), "-{0}", "-{0}", 7),
        Operation(
            "power",
            lambda a, b: a**b,
            (lambda y, a, b: b * a ** (b - 1.0), lambda y, a, b: y * log(a)),
            "{0} ** {1}",
            "{{{0}}}^{{{1}}}",
            8,
        ),
        Operation("less", lambda a, b: a < b, (None, None), "{0} < {1}", "{0} < {1}", 1, True),
        Operation("less_equal", lambda a, b: a <= b, (None, None), "{0} <= {1}", r"{0} \le {1}", 1, True),
        Operation("equal", lambda a, b: a == b, (None, None), "{0} == {1}", "{0} = {1}", 1, True),
        Operation("and", lambda a, b: a & b, (None, None), "{0} & {1}", r"{0} \wedge {1}", 3, True),
        Operation("or", lambda a, b: a | b, (None, None), "{0} | {1}", r"{0} \vee {1}", 2, True),
        Operation("not", lambda a: ~a, (None,), "~{0}", r"\neg {0}", 7, True),
        Operation(
            "where",
            _where,
            (None, lambda y, c, a, b: where(c, 1.0, 0.0), lambda y, c, a, b: where(c, 0.0, 1.0)),
            "where({0}, {1}, {2})",
            r"\operatorname{{where}}({0},\, {1},\, {2})",
        ),
        Operation("sigmoid", torch.sigmoid, (lambda y, a: y * (1.0 - y),), "sigmoid({0})", r"\sigma({0})"),
        Operation("tanh", torch.tanh, (lambda y, a: 1.0 - y * y,), "tanh({0})", r"\tanh({0})"),
        Operation(
            "relu", torch.relu, (lambda y, a: where(y > 0.0, 1.0, 0.0),), "relu({0})", r"\operatorname{{relu}}({0})"
        ),
        Operation(
            "softplus", _softplus, (lambda y, a: sigmoid(a),), "softplus({0})", r"\operatorname{{softplus}}({0})"
        ),
        Operation("exp", torch.exp, (lambda y, a: y,), "exp({0})", r"\exp({0})"),
        Operation("log", torch.log, (lambda y, a: 1.0 / a,), "log({0})", r"\log({0})"),
        Operation("sqrt", torch.sqrt, (lambda y, a: 0.5 / y,), "sqrt({0})", r"\sqrt{{{0}}}"),
        Operation("abs", torch.abs, (lambda y, a: sign(a),), "abs({0})", r"\left|{0}\right|"),
        Operation("sign", torch.sign, (None,), "sign({0})", r"\operatorname{{sign}}({0})"),
        Operation("floor", torch.floor, (None,), "floor({0})", r"\lfloor {0} \rfloor"),
        Operation(
            "minimum",
            _paired(torch.minimum),
            (_first_is_smaller, _second_is_smaller),
            "minimum({0}, {1})",
            r"\min({0}, {1})",
        ),
        Operation(
            "maximum",
            _paired(torch.maximum),
            (_first_is_larger, _second_is_larger),
            "maximum({0}, {1})",
            r"\max({0}, {1})",
        ),
        Operation(
            "clamp",
            lambda v, low, high: torch.clamp(v, low, high),
            (
                lambda y, v, low, high: where((v < low) | (v > high), 0.0, 1.0),
                lambda y, v, low, high: where(v < low, 1.0, 0.0),
                lambda y, v, low, high: where(v > high, 1.0, 0.0),
            ),
            "clamp({0}, {1}, {2})",
            r"\operatorname{{clamp}}({0},\, {1},\, {2})",
        ),
        Operation("sin", torch.sin, (lambda y, a: cos(a),), "sin({0})", r"\sin({0})"),
        Operation("cos", torch.cos, (lambda y, a: -sin(a),), "cos({0})", r"\cos({0})"),
        Operation(
            "erf",
            torch.erf,
            (lambda y, a: (2.0 / math.sqrt(math.pi)) * exp(-(a * a)),),
            "erf({0})",
            r"\operatorname{{erf}}({0})",
        ),
    )
}


def apply(name: str, *arguments: Value) -> Value:
    """The operation on tensors, or its record where one of the arguments is an expression."""
    for argument in arguments:
        if isinstance(argument, Expression):
            return argument.operate(name, arguments)
    if any(isinstance(argument, Tensor) for argument in arguments):
        return OPERATIONS[name].value(*arguments)
    return float(OPERATIONS[name].value(*(torch.as_tensor(argument, dtype=torch.float64) for argument in arguments)))


def sigmoid(v: Value) -> Value:
    """1 / (1 + e^−v)."""
    return apply("sigmoid", v)


def tanh(v: Value) -> Value:
    """(e^v − e^−v) / (e^v + e^−v)."""
    return apply("tanh", v)


def relu(v: Value) -> Value:
    """max(v, 0)."""
    return apply("relu", v)


def softplus(v: Value) -> Value:
    """log(1 + e^v): a smooth `relu`."""
    return apply("softplus", v)


def exp(v: Value) -> Value:
    """e^v."""
    return apply("exp", v)


def log(v: Value) -> Value:
    """The natural logarithm."""
    return apply("log", v)


def sqrt(v: Value) -> Value:
    """The square root."""
    return apply("sqrt", v)


def sign(v: Value) -> Value:
    """−1, 0 or 1; its derivative is 0."""
    return apply("sign", v)


def floor(v: Value) -> Value:
    """The largest whole number that is not greater; its derivative is 0."""
    return apply("floor", v)


def sin(v: Value) -> Value:
    """The sine of an angle in radians."""
    return apply("sin", v)


def cos(v: Value) -> Value:
    """The cosine of an angle in radians."""
    return apply("cos", v)


def erf(v: Value) -> Value:
    """2/√π ∫₀^v e^(−u²) du: the error function."""
    return apply("erf", v)


def where(condition: Value, a: Value, b: Value) -> Value:
    """`a` where the condition holds, `b` elsewhere: what `if` is to a number, for every unit at once.

    ```python
    @rc.cell
    def spiking(x, U, h):
        return rc.where(h > 1, 0.0, 0.9 * h + rc.relu(x.h + U.h(h)))
    ```
    """
    return apply("where", condition, a, b)


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two values."""
    return apply("minimum", a, b)


def maximum(a: Value, b: Value) -> Value:
    """The larger of two values."""
    return apply("maximum", a, b)


def clamp(v: Value, low: float, high: float) -> Value:
    """The nearest value between `low` and `high`."""
    return apply("clamp", v, low, high)


def linear(v: Value) -> Value:
    """The identity, for cells that take their activation as an option."""
    return v


def silu(v: Value) -> Value:
    """v · sigmoid(v). Hendrycks & Gimpel 2016."""
    return v * sigmoid(v)


def gelu(v: Value) -> Value:
    """v Φ(v), with Φ of the normal distribution. Hendrycks & Gimpel 2016."""
    return 0.5 * v * (1.0 + erf(v * math.sqrt(0.5)))


ACTIVATIONS: dict[str, Callable[[Value], Value]] = {
    function.__name__: function
    for function in (tanh, sigmoid, relu, softplus, linear, silu, gelu, sin, cos, erf, exp, abs)
}
"""What an option such as `elman(activation="relu")` may name."""
