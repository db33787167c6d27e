"""Ridge functions in superposition: F(x) = Σ v_i φ(w_i · x + b_i) approximates a given function of one or two variables.

Cybenko 1989, Hornik 1991: such sums are dense in the continuous functions on a cube. Here the ridges are drawn once, those of a
wider sum contain those of a narrower one, and the v_i are solved in closed form: the error on the points that are
fitted can only fall with the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.cells.operations import ACTIVATIONS
from recurra.errors import OptionError, choose_from
from recurra.results import Result, Table
from recurra.types import Float

BOUNDED = ("sigmoid", "tanh", "relu", "softplus")
FUNCTIONS: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "sine": (1, lambda x: torch.sin(2 * math.pi * x[:, 0])),
    "step": (1, lambda x: (x[:, 0] > 0.5).to(x)),
    "hat": (1, lambda x: (1 - (4 * x[:, 0] - 2).abs()).clamp(min=0)),
    "wave": (2, lambda x: torch.sin(2 * math.pi * x[:, 0]) * torch.cos(math.pi * x[:, 1])),
    "bump": (2, lambda x: torch.exp(-20 * (x - 0.5).square().sum(1))),
    "product": (2, lambda x: x[:, 0] * x[:, 1]),
}
"""Functions on the unit interval or square by name: how many variables, and the function of points `[N, d]`."""
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, eq=False)
class Approximation(Result):
    """How well sums of ridge functions of several widths approximate a function.

    - `widths`; `largest`, `typical`: by width, the largest error and the root of the mean squared one, on points between those
      that were fitted.
    - `points`, `values`: where it was measured, and the function there. `approximations`: by width, the sums there.
    - `weights`, `biases`: of all ridges; the sum of width m has the first m. `outer`: by width, the v_i, and a constant last.
    """

    name: str
    activation: str
    widths: tuple[int, ...]
    largest: tuple[float, ...]
    typical: tuple[float, ...]
    points: Float[Tensor, "N d"]
    values: Float[Tensor, " N"]
    approximations: Float[Tensor, "M N"]
    weights: Float[Tensor, "K d"]
    biases: Float[Tensor, " K"]
    outer: tuple[Tensor, ...]

    def __call__(self, x: Float[Tensor, "N d"], width: int | None = None) -> Float[Tensor, " N"]:
        """The sum of a width (the largest unless given) at some points."""
        k = len(self.widths) - 1 if width is None else self.widths.index(width)
        return _ridges(x, self.weights, self.biases, self.activation, self.widths[k]) @ self.outer[k]

    def table(self) -> Table:
        rows = [
            (f"{m}", f"{a:.2e}", f"{b:.2e}") for m, a, b in zip(self.widths, self.largest, self.typical, strict=True)
        ]
        title = f"{self.name} by sums of {self.activation} ridges"
        return Table(("width", "largest error", "root mean square"), rows, title)

    def to_json(self) -> dict[str, object]:
        return {
            "function": self.name, "activation": self.activation, "widths": list(self.widths),
            "largest": list(self.largest), "typical": list(self.typical),
        }  # fmt: skip


def approximate(
    function: str | Callable[[Tensor], Tensor],
    widths: Sequence[int] = WIDTHS,
    *,
    variables: int = 1,
    activation: str = "sigmoid",
    steepness: float = 20.0,
    seed: int = 0,
) -> Approximation:
    """Approximate a function on the unit interval, or on the unit square, by sums of ridge functions of growing width.

    - `function`: `sine`, `step`, `hat` (of one variable), `wave`, `bump`, `product` (of two), or a function of points `[N, d]`
      with `variables` d, 1 or 2.
    - `steepness`: how steep ridges are at most. `activation`: φ, `sigmoid`, `tanh`, `relu` or `softplus`.

    ```python
    found = rc.lecture.approximate("sine", widths=(1, 4, 16))
    print(found)
    own = rc.lecture.approximate(lambda x: (x[:, 0] - x[:, 1]).abs(), (4, 32), variables=2)
    ```
    """
    choose_from("activation", activation, BOUNDED)
    if isinstance(function, str):
        name = choose_from("function", function, FUNCTIONS)
        variables, made = FUNCTIONS[name]
    else:
        name, made = getattr(function, "__name__", "function"), function
        name = "the function" if name == "<lambda>" else name
    widths = tuple(sorted(set(widths)))
    if variables not in (1, 2) or not widths or widths[0] < 1 or not steepness > 0:
        raise OptionError(
            f"approximate: variables must be 1 or 2, widths and steepness positive; got {variables}, {widths}, {steepness}."
        )
    draw = torch.Generator().manual_seed(seed)
    count = widths[-1]
    directions = torch.randn(count, variables, generator=draw, dtype=torch.float64)
    steep = steepness * torch.rand(count, 1, generator=draw, dtype=torch.float64).clamp(min=0.05)
    weights = directions / directions.norm(dim=1, keepdim=True) * steep
    # each ridge bends at a point inside the cube
    centres = torch.rand(count, variables, generator=draw, dtype=torch.float64)
    biases = -(weights * centres).sum(1)
    fitted, between = (_grid(variables, shift) for shift in (0.0, 0.5))
    truth, wanted = (torch.as_tensor(made(each), dtype=torch.float64).reshape(-1) for each in (fitted, between))
    outer, sums = [], []
    for width in widths:
        ridges = _ridges(fitted, weights, biases, activation, width)
        outer.append(torch.linalg.lstsq(ridges, truth[:, None], driver="gelsd", rcond=1e-10).solution[:, 0])
        sums.append(_ridges(between, weights, biases, activation, width) @ outer[-1])
    errors = torch.stack(sums) - wanted
    return Approximation(
        name,
        activation,
        widths,
        tuple(errors.abs().amax(1).tolist()),
        tuple(errors.square().mean(1).sqrt().tolist()),
        between,
        wanted,
        torch.stack(sums),
        weights,
        biases,
        tuple(outer),
    )


def _ridges(x: Tensor, weights: Tensor, biases: Tensor, activation: str, width: int) -> Float[Tensor, "N K"]:
    values: Tensor = ACTIVATIONS[activation](x @ weights[:width].T + biases[:width])
    return torch.cat([values, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


def _grid(variables: int, shift: float) -> Float[Tensor, "N d"]:
    """Points of the unit interval or square; shifted ones lie between those that are not."""
    side = 400 if variables == 1 else 40
    line = (torch.arange(side, dtype=torch.float64) + shift) / side
    return line[:, None] if variables == 1 else torch.cartesian_prod(line, line)
