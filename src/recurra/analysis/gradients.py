"""Gradients through time: how much of ∂h_t/∂h_{t−k} is left after k steps, why, and what that means in words.

The chain rule makes it a product of Jacobians, ∂s_t/∂s_{t−k} = J_t J_{t−1} ⋯ J_{t−k+1}; its norm falls, grows or holds with k.
Norms are kept as logarithms, so that a thousand steps neither underflow nor overflow.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.exponents import lyapunov_exponents
from recurra.analysis.jacobians import StepMap
from recurra.cells.graph import make
from recurra.errors import OptionError, ShapeError, choose_from
from recurra.layers.recurrent import Recurrent
from recurra.results import Result, Table, to_plain
from recurra.types import Float

HOLDS = 1e-3
"""A gradient holds if the slope of its log norm is smaller than this, per step: a factor of e in a thousand steps."""


@dataclass(frozen=True)
class Verdict:
    """What happens to a gradient over k steps, as a number and in words.

    - `slope`: of the logarithm of its norm, per step. `half_life`: steps to half of it; infinite where it does not shrink.
    """

    slope: float
    reach: int

    @property
    def kind(self) -> str:
        if not math.isfinite(self.slope):
            return "vanishes" if self.slope < 0 else "undefined"
        return "holds" if abs(self.slope) < HOLDS else "explodes" if self.slope > 0 else "vanishes"

    @property
    def half_life(self) -> float:
        return math.log(2) / -self.slope if self.slope < 0 and self.kind == "vanishes" else math.inf

    @property
    def _change(self) -> float:
        """In per cent, over what was measured."""
        return 100 * math.expm1(self.slope * self.reach)

    def __str__(self) -> str:
        match self.kind:
            case "holds":
                return f"holds to {self.reach} steps"
            case "explodes":
                if math.log(2) / self.slope > self.reach:  # nobody has seen it double
                    return f"grows by {self._change:.0f} % over the {self.reach} steps that were measured"
                return f"explodes: doubles every {math.log(2) / self.slope:.3g} steps (measured over {self.reach})"
            case "undefined":
                return "is undefined: the state is NaN"
        if math.isinf(self.slope):
            return "vanishes at once: the next state does not depend on this one"
        if self.half_life > self.reach:  # nobody has seen it halved
            return f"shrinks by {-self._change:.0f} % over the {self.reach} steps that were measured"
        return f"vanishes with a half-life of {self.half_life:.3g} steps (measured over {self.reach})"


@dataclass(frozen=True)
class Factor:
    """One recurrent matrix in the Jacobian: diag(factor) U. The factor is what activations and gates multiply it by."""

    matrix: str
    mean_factor: float
    largest_factor: float
    spectral_norm: float
    spectral_radius: float


@dataclass(frozen=True)
class GradientFlow(Result):
    """How gradients go back through time along one trajectory.

    - `lags`: k = 0 … K. `state`: log ‖∂s_t/∂s_{t−k}‖₂ (the largest singular value), the mean over starting points t.
    - `loss`: by layer, log ‖∂L/∂h_{t−k}‖ for the loss L at the last step, from one backward pass.
    - `singular_values`: logarithms of the largest ones at each lag, of the product that ends at the last step.
    - `units`: by unit of the full state, the slope of the log gradient that reaches it.
    - `factors`: for each recurrent matrix of each layer, its size and what it is multiplied by.
    - `carried`: by layer and state, the log norm of the path that passes no recurrent matrix: what units carry over by
      themselves. For an LSTM's c that is the product of forget gates. States without such a path are left out.
    """

    lags: list[int]
    state: Float[Tensor, " K"]
    loss: dict[str, Float[Tensor, " K"]]
    singular_values: Float[Tensor, "K M"]
    units: Float[Tensor, " S"]
    factors: list[Factor]
    lyapunov: Float[Tensor, " M"]
    carried: dict[str, Float[Tensor, " K"]]

    @property
    def verdict(self) -> Verdict:
        """Of the network as a whole: the norm of the product of Jacobians."""
        return Verdict(slope(self.state), self.lags[-1])

    def verdict_on_unit(self, unit: int) -> Verdict:
        return Verdict(float(self.units[unit]), self.lags[-1])

    def verdict_on_carried(self, state: str) -> Verdict:
        return Verdict(slope(self.carried[choose_from("state", state, self.carried)]), self.lags[-1])

    @property
    def kinds_of_units(self) -> dict[str, int]:
        """How many units the gradient vanishes, holds or explodes at."""
        return dict(Counter(self.verdict_on_unit(unit).kind for unit in range(len(self.units))))

    def table(self) -> Table:
        rows = [
            (each.matrix, *(f"{value:.4g}" for value in asdict(each).values() if isinstance(value, float)))
            for each in self.factors
        ]
        columns = ("matrix", "mean factor", "largest factor", "spectral norm", "spectral radius")
        return Table(columns, rows, str(self))

    def __str__(self) -> str:
        units = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds_of_units.items()))
        exponent = float(self.lyapunov[0])
        seen = f"the gradient {self.verdict}. Of its units over these {self.lags[-1]} steps: {units}."
        return f"{seen} Largest Lyapunov exponent {exponent:.4g} a step."

    def to_json(self) -> dict[str, Any]:
        row = {
            "verdict": str(self.verdict),
            "slope": self.verdict.slope,
            "units": self.kinds_of_units,
            "largest_lyapunov_exponent": float(self.lyapunov[0]),
            "carried": {name: str(self.verdict_on_carried(name)) for name in self.carried},
            "factors": self.factors,
            "spectral_radius": {each.matrix: each.spectral_radius for each in self.factors},
            "summary": str(self),
        }
        return {name: to_plain(value) for name, value in row.items()}

    def arrays(self) -> dict[str, Tensor]:
        return {
            "lags": torch.tensor(self.lags),
            "state": self.state,
            "singular_values": self.singular_values,
            "units": self.units,
            "lyapunov": self.lyapunov,
            **{f"loss {name}": values for name, values in self.loss.items()},
            **{f"carried {name}": values for name, values in self.carried.items()},
        }


def slope(logs: Float[Tensor, " K"]) -> float:
    """Of a straight line through the second half of the log norms, per step; the first steps are a transient."""
    if bool(torch.isnan(logs).any()) or bool((logs == math.inf).any()):
        return math.nan
    if bool(torch.isinf(logs[1:]).any()):
        return -math.inf
    start = (len(logs) - 1) // 2
    y = logs[start:]
    x = torch.arange(len(y), dtype=y.dtype)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / x.square().sum()) if len(y) > 1 else 0.0


@torch.no_grad()
def products(jacobians: Float[Tensor, "T S S"]) -> tuple[Float[Tensor, "T1 S S"], Float[Tensor, " T1"]]:
    """The products J_T ⋯ J_{T−k+1} for k = 0 … T, each scaled to norm about 1, and the logarithms of the scales."""
    T, S, _ = jacobians.shape
    product = torch.eye(S, dtype=jacobians.dtype)
    log = torch.zeros((), dtype=jacobians.dtype)
    found, logs = [product], [log]
    for k in range(1, T + 1):
        product = product @ jacobians[T - k]
        size = product.abs().max()
        if size > 0:
            product, log = product / size, log + size.log()
        found.append(product)
        logs.append(log)
    return torch.stack(found), torch.stack(logs)


def gradient_flow(
    layer: Recurrent,
    x: Float[Tensor, "T D"],
    *,
    readout: Float[Tensor, "V H"] | None = None,
    steps: int = 100,
    starts: int = 4,
    warmup: int = 20,
) -> GradientFlow:
    """Follow gradients back along one sequence.

    - `x`: at least `warmup + steps` inputs; the state runs through the first ones freely.
    - `readout`: the matrix of the loss at the last step, L = sum of the readout of h; the sum of h otherwise.
    - `starts`: from how many last steps the norm of the product is averaged.

    ```python
    flow = rc.gradient_flow(rc.Recurrent("lstm", 2, 8), torch.randn(60, 2), steps=40)
    print(flow.verdict)                                             # how fast the gradient shrinks or grows, in words
    flow.plot()
    ```
    """
    F = StepMap(layer)
    x = x.detach().to(F.dtype)
    needed = warmup + steps
    if len(x) < needed:
        raise OptionError(
            f"gradients over {steps} steps need a sequence of at least {needed} inputs ({warmup} to warm up); got {len(x)}."
        )
    if len(x) > needed + starts:
        x = x[: needed + starts]
    starts = max(1, min(starts, len(x) - needed + 1))
    states, jacobians = _run(F, layer, x)
    if not bool(torch.isfinite(states).all()):
        raise ShapeError(
            "the state of the network is not a number (NaN or ±inf) along this sequence: it diverged, or a weight is NaN."
        )
    logs, units, singular = [], [], None
    for start in range(starts):
        end = len(x) - start
        scaled, scale = products(jacobians[end - steps : end])
        with torch.no_grad():
            if singular is None:
                singular = scale[:, None] + torch.linalg.svdvals(scaled)[:, :8].log()
                logs.append(singular[:, 0])
            else:
                logs.append(scale + torch.linalg.eigvalsh(scaled.mT @ scaled)[:, -1].log() / 2)
            reach = scaled.norm(dim=1).log() + scale[:, None]  # [K, S]: how much of the end each unit of the past moves
        units.append(torch.tensor([slope(column) for column in reach.T], dtype=F.dtype))
    assert singular is not None
    return GradientFlow(
        lags=list(range(steps + 1)),
        state=torch.stack(logs).mean(0),
        loss=_loss_norms(F, x, states, readout, steps),
        singular_values=singular,
        units=torch.stack(units).mean(0),
        factors=_factors(F, states, x),
        lyapunov=lyapunov_exponents(jacobians),
        carried=_carried(F, states, x, steps),
    )


@torch.no_grad()
def _run(F: StepMap, layer: Recurrent, x: Tensor) -> tuple[Float[Tensor, "T1 S"], Float[Tensor, "T S S"]]:
    """States before the first and after every step, and the Jacobian of each step."""
    s = F.pack(layer.initial_state(1)).detach()
    states, jacobians = [s[0]], []
    for t in range(len(x)):
        step = F.step(s, x[t : t + 1])
        s = step.next
        states.append(s[0])
        jacobians.append(step.state[0])
    return torch.stack(states), torch.stack(jacobians)


def _loss_norms(F: StepMap, x: Tensor, states: Tensor, readout: Tensor | None, steps: int) -> dict[str, Tensor]:
    """One backward pass from the last step: the norm of what arrives at each layer's states, k steps before."""
    s = states[len(x) - steps][None].clone().requires_grad_()
    path = [s]
    for t in range(len(x) - steps, len(x)):
        s = F(s, x[t : t + 1])
        path.append(s)
    h = F.outputs(s)
    loss = h.sum() if readout is None else (h @ readout.detach().to(F.dtype).T).sum()
    gradients = torch.autograd.grad(loss, path, allow_unused=True)
    found: dict[str, Tensor] = {}
    place = 0
    several = len(F.layers) > 1
    for k, each in enumerate(F.layers):
        for state in each.graph.states:
            part = slice(place, place + state.depth * each.H)
            norms = [
                g[0, part].norm() if g is not None else torch.zeros((), dtype=F.dtype) for g in reversed(gradients)
            ]
            found[f"layer {k} {state.name}" if several else state.name] = torch.stack(norms).log().detach()
            place += state.depth * each.H
    return found


@torch.no_grad()
def _factors(F: StepMap, states: Tensor, x: Tensor) -> list[Factor]:
    """What each recurrent matrix is multiplied by on its way into the Jacobian: mean and largest size over steps and units."""
    found = []
    for k, at in enumerate(F.walk(states[:-1], x)):
        layer, slopes = at.layer, at.layer.slopes(at.values, at.state)
        sizes: dict[str, list[Tensor]] = {}
        for update in layer.graph.updates:
            for leaf, part in slopes[update].items():
                for name, factor in part.rows.items() if leaf.kind == "state" else ():
                    sizes.setdefault(name, []).append(torch.as_tensor(factor, dtype=F.dtype).abs().flatten())
        for name, matrix in layer.matrices.items():
            size = torch.cat(sizes[name]) if name in sizes else torch.tensor([math.nan])
            called = f"layer {k} U.{name}" if len(F.layers) > 1 else f"U.{name}"
            radius = float(torch.linalg.eigvals(matrix).abs().max())
            norm = float(torch.linalg.matrix_norm(matrix, 2))
            found.append(Factor(called, float(size.mean()), float(size.max()), norm, radius))
    return found


@torch.no_grad()
def _carried(F: StepMap, states: Tensor, x: Tensor, steps: int) -> dict[str, Tensor]:
    """Products, over the last k steps, of each unit's slope with respect to itself; of the unit that carries most."""
    found = {}
    for k, at in enumerate(F.walk(states[:-1], x)):
        layer, slopes = at.layer, at.layer.slopes(at.values, at.state)
        for state, update in zip(layer.graph.states, layer.graph.updates, strict=True):
            own = slopes[update].get(make("state", name=state.name, delay=1))
            if own is None or (isinstance(own.diagonal, float) and own.diagonal == 0):
                continue
            logs = layer.wide(own.diagonal, at.state)[-steps:].abs().log().flip(0).cumsum(0).amax(1)
            called = f"layer {k} {state.name}" if len(F.layers) > 1 else state.name
            found[called] = torch.cat([logs.new_zeros(1), logs])
    return found


@dataclass(frozen=True, eq=False)
class Spectrum(Result):
    """Eigenvalues of a recurrent matrix, largest first, and how much of each component is left after powers of it.

    `survival[k, i]` is |λ_i|^k: the share of h(0)'s component along eigenvector i after k steps of h ← W h.
    """

    eigenvalues: Tensor
    survival: Float[Tensor, "K H"]

    @property
    def radius(self) -> float:
        return float(self.eigenvalues.abs().max())

    def __str__(self) -> str:
        return f"{len(self.eigenvalues)} eigenvalues, spectral radius {self.radius:.4g}"

    def to_json(self) -> dict[str, Any]:
        return {"spectral_radius": self.radius, "eigenvalues": torch.view_as_real(self.eigenvalues).tolist()}

    def arrays(self) -> dict[str, Tensor]:
        return {"eigenvalues": self.eigenvalues, "survival": self.survival}


@dataclass(frozen=True, eq=False)
class Spectra(Result):
    """The spectrum of each recurrent matrix of a network, by name."""

    matrices: dict[str, Spectrum]

    def table(self) -> Table:
        return Table(
            ("matrix", "spectral radius"), [(name, f"{one.radius:.4g}") for name, one in self.matrices.items()]
        )

    def arrays(self) -> dict[str, Tensor]:
        return {name: one.eigenvalues for name, one in self.matrices.items()}


@torch.no_grad()
def spectrum(matrix: Float[Tensor, "H H"], steps: int = 50) -> Spectrum:
    """The eigenvalues of a matrix, and the norms of its powers: they shrink where all eigenvalues lie inside the unit circle.

    ```python
    rc.analysis.spectrum(0.9 * torch.eye(4)).plot()
    ```
    """
    values = torch.linalg.eigvals(matrix.detach().to(torch.float64))
    values = values[values.abs().argsort(descending=True)]
    k = torch.arange(steps + 1, dtype=torch.float64)
    return Spectrum(values, values.abs()[None, :] ** k[:, None])


def recurrent_spectra(layer: Recurrent, steps: int = 50) -> Spectra:
    """The spectrum of every recurrent matrix of every layer, in its forward direction.

    ```python
    print(rc.analysis.recurrent_spectra(rc.Recurrent("gru", 2, 8)))
    ```
    """
    several = len(layer.stack) > 1
    return Spectra(
        {
            f"layer {k} U.{name}" if several else f"U.{name}": spectrum(directions[0].matrix(name), steps)
            for k, directions in enumerate(layer.stack)
            for name in directions[0].cell.graph.matrices
        }
    )
