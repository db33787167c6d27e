"""The smallest network whose gradient vanishes: one input, one unit, one output.

h(t) = a_s(v h(t−1) + w x(t)), ŷ(t) = a_o(u h(t)), and an error e(y, ŷ) at the last step. Each step has replicas v_t, w_t of the
weights of its own, so that what each of them adds to the gradient is seen apart:

∂e/∂w_{t−k} = e′(ŷ) a_o′(u h(t)) u · Π_{d=1…k} a_s′(net(t−d+1)) v_{t−d+1} · a_s′(net(t−k)) x(t−k)

With tanh no factor of the product is larger than |v| (equal to it where the sum is 0), with the logistic function than |v|/4, so
that the product vanishes unless v is large; with the line it is v^k; with a rectifier it is v^k until the first negative sum,
and 0 from there on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.cells.operations import ACTIVATIONS, OPERATIONS
from recurra.errors import OptionError, choose_from
from recurra.results import Result, Table
from recurra.types import Float

SHOWN = ("tanh", "sigmoid", "relu", "softplus", "linear")
ERRORS: dict[str, tuple[Callable[[float, float], float], Callable[[float, float], float]]] = {
    "square": (lambda y, z: 0.5 * (z - y) ** 2, lambda y, z: z - y),
    "cross-entropy": (
        lambda y, z: -y * math.log(z) - (1 - y) * math.log(1 - z),
        lambda y, z: (z - y) / (z * (1 - z)),
    ),
}
"""e(y, ŷ), and its slope in ŷ."""


@dataclass(frozen=True, eq=False)
class ScalarCase(Result):
    """The run of one unit, and the gradient of its last error with respect to every replica of its weights.

    - `x`, `nets`, `states`: by step; `states` begins with h(0). `prediction`, `target`, `error`: of the last step.
    - `outer`: e′(ŷ) a_o′(u h(t)) u, what reaches h(t).
    - `products`: by k, Π a_s′ v over the k steps from t−k to t, which is ∂h(t)/∂h(t−k).
    - `of_w`, `of_v`: by k, ∂e/∂w_{t−k} and ∂e/∂v_{t−k}. `of_u`: ∂e/∂u.

    The gradient of the shared weight is the sum over its replicas: `d_w`, `d_v`.
    """

    x: Float[Tensor, " T"]
    nets: Float[Tensor, " T"]
    states: Float[Tensor, " T1"]
    prediction: float
    target: float
    error: float
    outer: float
    products: Float[Tensor, " T"]
    of_w: Float[Tensor, " T"]
    of_v: Float[Tensor, " T"]
    of_u: float

    @property
    def d_w(self) -> float:
        """∂e/∂w, of the weight that all steps share."""
        return float(self.of_w.sum())

    @property
    def d_v(self) -> float:
        """∂e/∂v, of the weight that all steps share."""
        return float(self.of_v.sum())

    def table(self) -> Table:
        T = len(self.x)
        rows = [
            (
                f"{k}",
                f"{T - k}",
                *(f"{float(each):.4g}" for each in (self.x[T - 1 - k], self.states[T - k])),
                *(f"{float(each[k]):.3e}" for each in (self.products, self.of_w, self.of_v)),
            )
            for k in range(T)
        ]
        title = (
            f"ŷ {self.prediction:.4g}, target {self.target:.4g}, e {self.error:.4g}; e′ a_o′ u = {self.outer:.4g}; summed over "
            f"all replicas: ∂e/∂w {self.d_w:.4g}, ∂e/∂v {self.d_v:.4g}"
        )
        return Table(("k", "step", "x", "h", "∂h(t)/∂h(t−k)", "∂e/∂w(t−k)", "∂e/∂v(t−k)"), rows, title)


def scalar_case(
    x: Sequence[float] | Tensor,
    target: float = 1.0,
    *,
    v: float | Sequence[float] = 0.9,
    w: float | Sequence[float] = 1.0,
    u: float = 1.0,
    activation: str = "tanh",
    output: str = "linear",
    error: str = "square",
    start: float = 0.0,
) -> ScalarCase:
    """One unit over any sequence of inputs, and ∂e/∂w_{t−k}, ∂e/∂v_{t−k} for every k.

    - `x`: the inputs. `target`: y at the last step. `start`: h(0).
    - `v`, `w`: one number, or one for each step's replica. `u`: of the output.
    - `activation`, `output`: a_s and a_o, each `tanh`, `sigmoid`, `relu`, `softplus` or `linear`.
    - `error`: `square`, ½(ŷ − y)²; or `cross-entropy`, for an output between 0 and 1.

    ```python
    found = rc.lecture.scalar_case([1.0] + [0.0] * 19, v=0.9)
    print(found)
    found.of_w[19]          # what the first input still means to the last error
    ```
    """
    inputs = torch.as_tensor(x, dtype=torch.float64)
    if inputs.ndim != 1 or not len(inputs):
        raise OptionError(f"x must be a sequence of at least one number; got {list(inputs.shape)}.")
    a_s, a_o = (choose_from(name, each, SHOWN) for name, each in (("activation", activation), ("output", output)))
    e, e_slope = ERRORS[choose_from("error", error, ERRORS)]
    T = len(inputs)
    vs, ws = (_replicas(name, each, T) for name, each in (("v", v), ("w", w)))
    states, nets = [torch.tensor(float(start), dtype=torch.float64)], []
    for t in range(T):
        nets.append(vs[t] * states[-1] + ws[t] * inputs[t])
        states.append(_value(a_s, nets[-1]))
    h, net = torch.stack(states), torch.stack(nets)
    out = u * h[-1]
    prediction = float(_value(a_o, out))
    if error == "cross-entropy" and not (0 < prediction < 1 and 0 <= target <= 1):
        raise OptionError(
            f"error=cross-entropy needs a prediction inside (0, 1) and a target in [0, 1]; got {prediction:.4g} and {target:.4g}."
            " Use output='sigmoid', or error='square'."
        )
    reaching = e_slope(target, prediction) * float(_slope(a_o, out))
    slopes = _slope(a_s, net)
    products, product = [], 1.0
    for k in range(T):  # the product over d = 1 … k
        products.append(product)
        product *= float(slopes[T - 1 - k] * vs[T - 1 - k])
    back = torch.tensor(products, dtype=torch.float64) * reaching * u * slopes.flip(0)
    return ScalarCase(
        inputs,
        net,
        h,
        prediction,
        float(target),
        e(target, prediction),
        reaching * u,
        torch.tensor(products, dtype=torch.float64),
        back * inputs.flip(0),
        back * h[:-1].flip(0),
        reaching * float(h[-1]),
    )


def scalar_gradient(
    v: float, activation: str = "tanh", *, steps: int = 50, x: float = 0.0, start: float = 0.5
) -> list[float]:
    """∂h(t)/∂h(t−k) for k = 0 … steps, along the run from h = `start` with the input w x = `x` at every step.

    ```python
    rc.lecture.scalar_gradient(0.9, steps=10)
    ```
    """
    if steps < 1:
        raise OptionError(f"steps must be at least 1; got {steps}.")
    found = scalar_case([x] * steps, v=v, activation=activation, start=start)
    last = float(found.products[-1]) * float(_slope(activation, found.nets[0])) * v
    return [*found.products.tolist(), last]


def _value(activation: str, a: Tensor) -> Tensor:
    made: Tensor = ACTIVATIONS[activation](a)
    return made


def _slope(activation: str, a: Tensor) -> Tensor:
    if activation == "linear":
        return torch.ones_like(a)
    partial = OPERATIONS[activation].partials[0]
    assert partial is not None
    made: Tensor = partial(_value(activation, a), a)
    return made.to(a.dtype)


def _replicas(name: str, given: float | Sequence[float], T: int) -> Float[Tensor, " T"]:
    values = torch.as_tensor(given, dtype=torch.float64)
    if values.ndim and len(values) != T:
        raise OptionError(f"{name} is one number, or one for each of the {T} steps; got {len(values)}.")
    return values.expand(T)
