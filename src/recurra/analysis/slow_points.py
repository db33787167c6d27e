"""Slow points: local minima of the speed q = ½‖F(s) − s‖² that are small but not zero, where a network lingers.

At a minimum ∇q = (J − I)ᵀ(F(s) − s) vanishes while F(s) − s does not, so that J − I is singular there. A Gauss–Newton step,
which fixed points are found with, knows nothing of the curvature along that direction and stops anywhere. BFGS learns it from the
gradients. A gradient that is small beside F(s) − s is not enough: where gates close, q falls to 0 on the way to infinity, and ∇q
with it, though there is no minimum. It has to be small beside q too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.types import Float

FLAT = 1e-3
"""A point is a minimum if ‖∇q‖ is at most this share of ‖F(s) − s‖, and at most `STILL` of q / (1 + ‖s‖)."""
STILL, ARRIVED, ITERATIONS = 1e-2, 1e-4, 150
REACH_STEPS, REACH_STATES, MARGIN = 30, 512, 0.02
"""Steps and states that show how far trajectories reach, and by how much of what is visited a state may lie beyond it."""

Map = Callable[[Tensor], Tensor]
MapWithSlope = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class SlowPoint:
    """A place where the network lingers: a local minimum of the speed q = ½‖F(s) − s‖² that is not zero.

    - `speed`: q there. `slope`: ‖∇q‖ over ‖F(s) − s‖, which is 0 at a minimum. `eigenvalues`: of the Jacobian, largest first.
    - `is_far`: outside of what the network visits. `is_reachable`: within the range of every unit that trajectories from visited
      states take while the input is held; what is not reachable explains nothing that the network does.
    """

    state: Float[Tensor, " S"]
    speed: float
    eigenvalues: Tensor
    slope: float = 0.0
    is_far: bool = False
    is_reachable: bool = True


def gradient_of_speed(both: MapWithSlope, s: Float[Tensor, "N S"]) -> tuple[Tensor, Tensor, Tensor]:
    """F(s) − s, ∇q and J − I."""
    after, A = both(s)
    A.diagonal(dim1=1, dim2=2).sub_(1)
    G = after - s
    return G, (A.mT @ G[..., None])[..., 0], A


def slopes(both: MapWithSlope, s: Float[Tensor, "N S"]) -> Float[Tensor, "N 2"]:
    """‖∇q‖ / ‖F(s) − s‖, and ‖∇q‖ (1 + ‖s‖) / q: by which share q changes over a way as long as s."""
    G, g, _ = gradient_of_speed(both, s)
    size, steep = G.norm(dim=1).clamp(min=1e-150), g.norm(dim=1)
    return torch.stack([steep / size, 2 * steep * (1 + s.norm(dim=1)) / size.square()], dim=1)


@torch.no_grad()
def minimise_speed(value: Map, both: MapWithSlope, s: Float[Tensor, "N S"], reach: float) -> Float[Tensor, "N S"]:
    """The local minima of q below some states, by BFGS from the inverse of (J − I)ᵀ(J − I) with backtracking. No state goes much
    farther than `reach`."""
    began, s, S = s, s.clone(), s.shape[1]
    eye = torch.eye(S, dtype=s.dtype)

    def speed(states: Tensor) -> Tensor:
        q = (value(states) - states).square().sum(1) / 2
        return torch.where(torch.isfinite(q), q, torch.inf)

    G, g, A = gradient_of_speed(both, s)
    q = G.square().sum(1) / 2
    normal = A.mT @ A
    normal += 1e-3 * (normal.diagonal(dim1=1, dim2=2).mean(1) + 1e-12)[:, None, None] * eye
    H, failed = torch.linalg.inv_ex(normal)
    H = torch.where((failed == 0)[:, None, None], H, eye)
    active = torch.arange(len(s))
    for _ in range(ITERATIONS):
        way = -(H @ g[..., None])[..., 0]
        fall = (way * g).sum(1)
        uphill = ~(fall < 0)
        way, fall = torch.where(uphill[:, None], -g, way), torch.where(uphill, -g.square().sum(1), fall)
        size, new_q = torch.ones_like(q), q.clone()
        accepted = torch.zeros(len(q), dtype=torch.bool)
        for _ in range(20):
            left = (~accepted).nonzero()[:, 0]
            if not len(left):
                break
            tried = speed(s[active[left]] + size[left, None] * way[left])
            good = tried <= q[left] + 1e-4 * size[left] * fall[left]
            new_q[left[good]], accepted[left[good]] = tried[good], True
            size[left[~good]] *= 0.4
        move = torch.where(accepted[:, None], size[:, None] * way, 0)
        s[active] += move
        _, new_g, _ = gradient_of_speed(both, s[active])
        y = new_g - g
        curved = (move * y).sum(1)
        learns = curved > 1e-12 * move.norm(dim=1) * y.norm(dim=1)
        rho = torch.where(learns, 1 / curved.where(learns, torch.ones_like(curved)), 0)[:, None, None]
        left_part = eye - rho * move[:, :, None] * y[:, None, :]
        updated = left_part @ H @ left_part.mT + rho * move[:, :, None] * move[:, None, :]
        H = torch.where(learns[:, None, None], updated, H)
        q, g = new_q, new_g
        here = s[active]
        inside = (here - began[active]).norm(dim=1) < reach
        steep = g.norm(dim=1) * (1 + here.norm(dim=1)) > ARRIVED * q
        going = accepted & inside & steep & (q > 1e-28)
        active, H, g, q = active[going], H[going], g[going], q[going]
        if not len(active):
            break
    return s


@torch.no_grad()
def reachable_range(value: Map, visited: Float[Tensor, "M S"]) -> tuple[Float[Tensor, " S"], Float[Tensor, " S"]]:
    """The lowest and the highest value of each unit in visited states and along trajectories from them and from states of the
    same ranges, with a margin: what lies outside is not reached, as far as these tell."""
    random = torch.Generator().manual_seed(0)
    low, high = visited.amin(0), visited.amax(0)
    margin = MARGIN * (high - low) + 1e-6
    chosen = visited[torch.randint(len(visited), (REACH_STATES,), generator=random)]
    mixed = low + (high - low) * torch.rand(chosen.shape, generator=random, dtype=visited.dtype)
    s = torch.cat([chosen, mixed])
    for _ in range(REACH_STEPS):
        s = value(s)
        s = s[torch.isfinite(s).all(1)]
        if not len(s):
            break
        low, high = torch.minimum(low, s.amin(0)), torch.maximum(high, s.amax(0))
    return low - margin, high + margin
