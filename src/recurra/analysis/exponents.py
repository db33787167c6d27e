"""Lyapunov exponents: the mean logarithmic growth of small differences along trajectories, many trajectories at once.

Trajectories come first, a block of steps at a time; then the Jacobians of all those steps in one call; only the
re-orthogonalisation goes step by step, for all trajectories together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recurra.analysis.jacobians import StepMap, step_map
from recurra.engines.choose import choose
from recurra.errors import OptionError, ShapeError
from recurra.results import Result
from recurra.types import Float, Shape

ROWS, NUMBERS = 16384, 2**20
"""States whose Jacobians are computed at once, and numbers of these: they stay in the cache."""
LONG = 10_000
"""Steps from which on a compiled kernel pays for trajectories: compiling one takes a second or two, the first time."""
SMALL = 8
"""Sizes up to which many matrices are multiplied and orthonormalised number by number, all of them at once."""


def lyapunov_exponents(jacobians: Float[Tensor, "T S S"], count: int | None = None) -> Float[Tensor, " M"]:
    """The mean logarithmic growth of volumes along a trajectory, per step, largest first."""
    growth = _Growth(1, jacobians.shape[1], count, len(jacobians), 0)
    growth.take(jacobians[:, None])
    return growth.spectrum()[0].to(jacobians.dtype)


@torch.no_grad()
def lyapunov_spectrum(
    F: StepMap,
    s: Float[Tensor, "*N S"],
    x: Float[Tensor, "*N T D"],
    *,
    warmup: int = 0,
    count: int | None = None,
) -> Float[Tensor, "*N M"]:
    """The exponents along the trajectories from `s` under the inputs `x`, per step, largest first.

    - `s`: where they start, `[S]`, or `[N, S]` for N of them at once. `x`: inputs of all, `[T, D]`, or of each, `[N, T, D]`.
    - `warmup`: first steps that do not count. `count`: how many exponents; all of them otherwise.

    ```python
    F = rc.analysis.StepMap(rc.Recurrent("elman", 1, 8))
    rc.analysis.lyapunov_spectrum(F, torch.randn(100, F.size), torch.zeros(200, 1), warmup=50)        # [100, 8]
    ```
    """
    if s.shape[-1] != F.size or s.ndim > 2 or x.ndim not in (2, 3) or x.shape[-1] != F.input_size:
        raise ShapeError(
            f"exponents need states [{F.size}] or [N, {F.size}] and inputs [T, {F.input_size}] or [N, T, {F.input_size}]; got "
            f"{list(s.shape)} and {list(x.shape)}."
        )
    alone = s.ndim == 1 and x.ndim == 2
    N = max(len(s) if s.ndim == 2 else 1, len(x) if x.ndim == 3 else 1)
    states = s.to(F.dtype).expand(N, -1)
    inputs = (x[:, None] if x.ndim == 2 else x.transpose(0, 1)).to(F.dtype).expand(-1, N, -1)
    growth = _Growth(N, F.size, count, len(inputs), warmup)
    at_once = max(1, min(ROWS, NUMBERS // F.size**2) // N)
    for before, read in _trajectories(F, states, inputs):
        for some, told in zip(before.split(at_once), read.split(at_once), strict=True):
            jacobians = F.jacobian(some.flatten(0, 1), told.flatten(0, 1))
            growth.take(jacobians.unflatten(0, (-1, N)))
    found = growth.spectrum().to(F.dtype)
    return found[0] if alone else found


@dataclass(frozen=True, eq=False)
class Lyapunov(Result):
    """Lyapunov exponents, per step, largest first.

    - `exponents`: along a trajectory, or their mean over several. `each`: those of every trajectory.
    """

    exponents: Float[Tensor, " M"]
    each: Float[Tensor, "N M"] | None = None

    @property
    def largest(self) -> float:
        return float(self.exponents[0])

    @property
    def dimension(self) -> float:
        """Kaplan and Yorke's: how many exponents, and which part of the next, have a sum of at least zero."""
        sums = self.exponents.cumsum(0)
        whole = int((sums >= 0).sum())
        if whole in (0, len(sums)):
            return float(whole)
        return whole + float(sums[whole - 1] / self.exponents[whole].abs())

    def __str__(self) -> str:
        kind = "chaotic" if self.largest > 1e-3 else "stable" if self.largest < -1e-3 else "marginal"
        several = ""
        if self.each is not None and len(self.each) > 1:
            low, high = float(self.each[:, 0].min()), float(self.each[:, 0].max())
            several = f" (mean of {len(self.each)} trajectories, {low:.4g} to {high:.4g})"
        return f"largest Lyapunov exponent {self.largest:.4g} a step{several}: {kind}; dimension {self.dimension:.3g}"

    def arrays(self) -> dict[str, Tensor]:
        return {"exponents": self.exponents} | ({} if self.each is None else {"each": self.each})


def lyapunov(
    network: StepMap | nn.Module,
    x: Float[Tensor, "*N T D"],
    *,
    start: Float[Tensor, "*N S"] | None = None,
    warmup: int = 0,
    count: int | None = None,
) -> Lyapunov:
    """The Lyapunov exponents of a network along its trajectory under the inputs `x`, or along many at once.

    - `x`: inputs `[T, D]`, or `[N, T, D]` for a trajectory each. `start`: states to start from, `[S]` or `[N, S]`; the initial
      state otherwise. `warmup`: first steps that do not count. `count`: how many exponents.

    ```python
    rc.lyapunov(rc.Recurrent("elman", 1, 8), torch.zeros(200, 1), warmup=50).exponents
    rc.lyapunov(rc.Recurrent("elman", 1, 8), torch.randn(100, 200, 1), warmup=50).each       # [100, 8]
    ```
    """
    F = step_map(network)
    found = lyapunov_spectrum(F, F.start if start is None else start, x, warmup=warmup, count=count)
    return Lyapunov(found) if found.ndim == 1 else Lyapunov(found.mean(0), found)


def _trajectories(
    F: StepMap, s: Float[Tensor, "N S"], x: Float[Tensor, "T N D"]
) -> Iterator[tuple[Float[Tensor, "L N S"], Float[Tensor, "L N D"]]]:
    """Blocks of steps: the states before each, and what is read."""
    shape = Shape(len(s), len(x), F.input_size, F.hidden_size)
    device = s.device
    compiled = len(x) >= LONG and not any(layer.held for layer in F.layers)
    for layer in F.layers if compiled else ():
        compiled = compiled and choose("auto", layer.cell, device, F.dtype, shape, record=True).name != "eager"
    for read in x.split(max(64, ROWS // len(s))):
        if compiled:
            before, s = _run_block(F, s, read)
        else:
            states = [s]
            for now in read:
                states.append(F(states[-1], now))
            s = states.pop()
            before = torch.stack(states)
        yield before, read


def _run_block(F: StepMap, s: Float[Tensor, "N S"], x: Float[Tensor, "L N D"]) -> tuple[Tensor, Tensor]:
    """The states before each step and after the last, layer by layer on its engine."""
    histories, y = [], x
    for k, (layer, own) in enumerate(zip(F.layers, s.split(F.sizes, dim=-1), strict=True)):
        first = tuple(part.transpose(0, 1).contiguous() for part in layer.unpack(own).values())
        shape = Shape(len(s), len(x), y.shape[-1], layer.H)
        engine = choose("auto", layer.cell, y.device, F.dtype, shape, record=True)
        run = engine.run(layer.cell, layer.weights, y.contiguous(), first, None, record=True)
        assert run.states is not None
        for start, after in zip(first, run.states, strict=True):
            windows = torch.cat([start, after]).unfold(0, len(start), 1)  # [L + 1, N, H, K]
            histories.append(windows.transpose(2, 3).flatten(2))
        y = run.states[0] + y if F.residual and k else run.states[0]
    states = torch.cat(histories, dim=-1)
    return states[:-1], states[-1]


Array = NDArray[np.float64]


class _Growth:
    """By QR re-orthogonalisation: Q_t R_t = J_t Q_{t−1}; the exponents are means of log |R_ii|. Benettin et al. 1980."""

    def __init__(self, trajectories: int, size: int, count: int | None, steps: int, warmup: int):
        if steps <= warmup:
            raise OptionError(f"exponents need more steps than the {warmup} of the warm-up; got {steps}.")
        columns = size if count is None else max(1, min(count, size))
        first = torch.randn(size, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        self.Q: Array = np.broadcast_to(torch.linalg.qr(first)[0].numpy(), (trajectories, size, columns))
        self.small = trajectories > 1 and size <= SMALL
        self.weights = np.concatenate([np.zeros(warmup), _window(steps - warmup)])
        self.total, self.step = np.zeros((trajectories, columns)), 0

    def take(self, jacobians: Float[Tensor, "L N S S"]) -> None:
        """The Jacobians of the next steps."""
        given: Array = jacobians.detach().cpu().double().numpy()
        sizes = self._take_small(given) if self.small else None
        if sizes is None:
            kept = []
            for J in given:
                self.Q, R = np.linalg.qr(J @ self.Q)
                kept.append(R)
            sizes = np.stack(kept).diagonal(axis1=-2, axis2=-1)
        weights = self.weights[self.step : self.step + len(given)]
        self.step += len(given)
        counts = weights > 0  # 0 · log 0 is NaN
        with np.errstate(divide="ignore"):  # a direction that ends has the exponent −inf
            self.total += np.einsum("t,tnm->nm", weights[counts], np.log(np.abs(sizes[counts])))

    def spectrum(self) -> Float[Tensor, "N M"]:
        """Of the steps that were taken, largest first."""
        return torch.from_numpy(self.total / self.weights.sum()).sort(dim=-1, descending=True).values

    def _take_small(self, given: Array) -> Array | None:
        """Gram and Schmidt's, modified, which is as exact in R as Householder's. Trajectories stand last, so that each operation
        is one of long vectors. `None` where a direction ends: Householder's has another one to go on with."""
        Q = np.ascontiguousarray(self.Q.transpose(1, 2, 0))
        S, M, N = Q.shape
        sizes = np.empty((len(given), M, N))
        with np.errstate(divide="ignore", invalid="ignore"):
            for t, J in enumerate(np.ascontiguousarray(given.transpose(0, 2, 3, 1))):
                V = J[:, 0, None] * Q[0]
                for k in range(1, S):
                    V += J[:, k, None] * Q[k]
                for j in range(M):
                    v, size = V[:, j], sizes[t, j]
                    for i in range(j):
                        q = V[:, i]
                        v -= q * np.add.reduce(q * v)
                    np.sqrt(np.add.reduce(v * v), out=size)
                    v /= size
                Q = V
        if not (sizes > 0).all():
            return None
        self.Q = Q.transpose(2, 0, 1)
        return sizes.transpose(0, 2, 1)


def _window(steps: int) -> Array:
    """The weights of the steps in a mean that fades in over its first quarter and out over its last one, smoothly.

    The plain mean is off by about 1/T: by how the first step starts and where in its turn the last one stops. In this window both
    ends count for nothing, and for what is periodic or quasi-periodic, such as a complex pair of eigenvalues, the error falls
    faster than any power of T (the weighted Birkhoff average, Das et al. 2017). For chaos it is a mean like any other; the
    flat half keeps it as steady as most of T allows.
    """
    u = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    edge = (4 * torch.minimum(u, 1 - u)).clamp(max=1)  # 0 at both ends, 1 in the middle half
    found: Array = torch.sigmoid(1 / (1 - edge) - 1 / edge).numpy()  # every derivative is 0 where it becomes flat
    return found
