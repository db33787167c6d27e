"""Known dynamical systems, written as cells: what the analysis is held to."""

import torch

from recurra import Recurrent, cell
from recurra.analysis.jacobians import StepMap


def runge_kutta(slopes, state, dt):
    """One step of fourth order, in the cell's own arithmetic."""

    def moved(by, how_far):
        return [s + how_far * k for s, k in zip(state, by, strict=True)]

    k1 = slopes(*state)
    k2 = slopes(*moved(k1, dt / 2))
    k3 = slopes(*moved(k2, dt / 2))
    k4 = slopes(*moved(k3, dt))
    return [s + dt / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True)]


@cell
def lorenz(x, U, a, b, c, *, dt=0.01):
    """Lorenz 1963, σ = 10, ρ = 28, β = 8/3."""

    def slopes(a, b, c):
        return 10.0 * (b - a) + x.force, a * (28.0 - c) - b, a * b - 8 / 3 * c

    a, b, c = runge_kutta(slopes, [a, b, c], dt)
    return a, b, c


@cell
def van_der_pol(x, U, a, b, *, dt=0.05):
    """Van der Pol 1926, μ = 1."""

    def slopes(a, b):
        return b + x.force, (1.0 - a * a) * b - a

    a, b = runge_kutta(slopes, [a, b], dt)
    return a, b


def without_input(one, size: int) -> Recurrent:
    """A layer of the cell in float64 whose inputs do nothing."""
    layer = Recurrent(one, 1, size).double()
    with torch.no_grad():
        for direction in layer.stack[0]:
            direction.W.zero_()
            direction.b.zero_()
    return layer


def elman_with(matrix: torch.Tensor, activation: str = "tanh") -> tuple[Recurrent, StepMap]:
    """h ← activation(matrix h), and its map."""
    layer = without_input(f"elman(activation={activation!r})", len(matrix))
    with torch.no_grad():
        layer.stack[0][0].U.copy_(matrix)
    return layer, StepMap(layer)
