"""Residual connections: how much of the gradient is left at each layer of a deep network, with the skip and without it.

The skip may join after the activation, y ← y + φ(W y + b) (its head is outside), or before it, y ← φ(y + W y + b) (inside). With
W and b at zero the first is the identity wherever φ(0) = 0; the second is only φ.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from recurra.cells.operations import ACTIVATIONS
from recurra.errors import OptionError, choose_from
from recurra.layers.recurrent import Recurrent
from recurra.models.feedforward import PHI
from recurra.results import Result, Table
from recurra.types import Float

FORMS = ("none", "outside", "inside")
"""Where the skip joins."""


@dataclass(frozen=True, eq=False)
class DepthGradients(Result):
    """Gradients over depth.

    - `about`: the network in words. `norms`: by form, ‖∂L/∂y(l)‖ at the input (l = 0) and after each layer.
    - `identity_errors`: by form, ‖y(L) − y(0)‖ / ‖y(0)‖ with every weight of the layers at zero: 0 is the identity.
    - `straight`: of recurrent layers, the part of `norms` at the step of the loss: what comes straight down the layers. The rest
      has also gone back in time, by one of the many ways that lead down and back.
    """

    about: str
    norms: dict[str, Float[Tensor, " L1"]]
    identity_errors: dict[str, float]
    straight: dict[str, Float[Tensor, " L1"]] = field(default_factory=dict)

    @property
    def left(self) -> dict[str, float]:
        """By form, what is left of the gradient at the input: its norm over that at the last layer."""
        return _left(self.norms)

    @property
    def left_straight(self) -> dict[str, float]:
        """The same of `straight`."""
        return _left(self.straight)

    def table(self) -> Table:
        columns = {"gradient left at the input": self.left, "distance from the identity at zero": self.identity_errors}
        if self.straight:
            columns |= {"left at the step of the loss": self.left_straight}
        rows = [(form, *(f"{column[form]:.3g}" for column in columns.values())) for form in self.norms]
        return Table(("skip", *columns), rows, self.about)


def gradients_over_depth(
    depth: int = 20,
    width: int = 32,
    *,
    activation: str = "tanh",
    scale: float = 0.7,
    cell: str | None = None,
    steps: int = 10,
    seed: int = 0,
) -> DepthGradients:
    """Measure gradients over depth without a skip, and with its head outside and inside.

    - `depth`, `width`, `activation`: of a feed-forward network. `scale`: its weights are normal numbers times scale / √width.
    - `cell`: then a stack of recurrent layers of this cell, over `steps` steps with the loss at the last one; its skip joins
      outside, as `Recurrent(residual=True)` has it. `scale` multiplies the weights that lead from layer to layer, W; those that
      lead from step to step, U, are orthogonal.

    ```python
    found = rc.lecture.gradients_over_depth(depth=20)
    print(found)
    assert found.left["outside"] > 100 * found.left["none"] and found.identity_errors["outside"] == 0
    found.plot("depth.svg")

    stack = rc.lecture.gradients_over_depth(16, cell="elman")
    assert stack.left_straight["none"] < 1e-3 < stack.left["none"]     # ways back in time add up, straight down it vanishes
    ```
    """
    if not (1 <= depth <= 1000 and width >= 1 and steps >= 1 and math.isfinite(scale) and scale > 0):
        raise OptionError(
            f"depth must be 1 to 1000, width and steps at least 1, scale above 0; got {depth}, {width}, {steps}, {scale}."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if cell is None:
            choose_from("activation", activation, PHI)
            weights = torch.randn(depth, width, width, dtype=torch.float64) * scale / math.sqrt(width)
            x, target = torch.randn(64, width, dtype=torch.float64), torch.randn(64, width, dtype=torch.float64)
            about = f"{depth} layers of {width} units, {activation}"
            forms: tuple[str, ...] = FORMS

            def run(form: str, zero: bool) -> list[Tensor]:
                return _feedforward(x, weights * (0 if zero else 1), activation, form)

        else:
            layers = nn.ModuleList(Recurrent(cell, width, width, engine="eager") for _ in range(depth)).double()
            still_layers = deepcopy(layers)
            with torch.no_grad():
                for name, parameter in layers.named_parameters():
                    if name.endswith(".W"):
                        parameter.mul_(scale)
                for parameter in still_layers.parameters():
                    parameter.zero_()
            x = torch.randn(16, steps, width, dtype=torch.float64)
            target = torch.randn(16, width, dtype=torch.float64)
            about = f"{depth} stacked layers of {cell} with {width} units, {steps} steps"
            forms = ("none", "outside")

            def run(form: str, zero: bool) -> list[Tensor]:
                return _stack(x, still_layers if zero else layers, form)

        norms, errors, straight = {}, {}, {}
        for form in forms:
            values = run(form, zero=False)
            last = values[-1] if cell is None else values[-1][:, -1]
            loss = (last - target).square().sum() / 2
            gradients = torch.autograd.grad(loss, values)
            norms[form] = torch.stack([each.norm() for each in gradients]).detach()
            if cell is not None:
                straight[form] = torch.stack([each[:, -1].norm() for each in gradients]).detach()
            still = run(form, zero=True)
            errors[form] = float(((still[-1] - still[0]).norm() / still[0].norm()).detach())
    return DepthGradients(about, norms, errors, straight)


def _left(norms: dict[str, Float[Tensor, " L1"]]) -> dict[str, float]:
    return {form: float(each[0] / each[-1]) for form, each in norms.items()}


def _feedforward(x: Tensor, weights: Tensor, activation: str, form: str) -> list[Tensor]:
    phi: Any = ACTIVATIONS[activation]
    values = [x.clone().requires_grad_()]
    for W in weights:
        y = values[-1]
        a = y @ W.T
        values.append(phi(a) if form == "none" else y + phi(a) if form == "outside" else phi(y + a))
    return values


def _stack(x: Tensor, layers: nn.ModuleList, form: str) -> list[Tensor]:
    values = [x.clone().requires_grad_()]
    for layer in layers:
        y = layer(values[-1]).outputs
        values.append(values[-1] + y if form == "outside" else y)
    return values
