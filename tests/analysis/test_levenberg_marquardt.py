"""The damped step is the solution of its equations, with and without columns that are eliminated by hand."""

import pytest
import torch
from torch import Tensor

from recurra.analysis.levenberg_marquardt import levenberg_marquardt_step

N, H = 5, 4


def plain(A: Tensor, G: Tensor, damping: Tensor) -> Tensor:
    normal = A.mT @ A
    weight = damping * normal.diagonal(dim1=1, dim2=2).mean(1)
    return -torch.linalg.solve(normal + weight[:, None, None] * torch.eye(A.shape[1]), (A.mT @ G[..., None]))[..., 0]


@pytest.mark.parametrize("place", [None, 0, 1, 2])
@pytest.mark.parametrize("damping", [1e-10, 1e-2, 1e4])
def test_it_solves_its_equations(place: int | None, damping: float) -> None:
    random = torch.Generator().manual_seed(0)
    A = torch.randn(N, 3 * H, 3 * H, generator=random, dtype=torch.float64)
    G = torch.randn(N, 3 * H, generator=random, dtype=torch.float64)
    local = None
    if place is not None:
        local = slice(place * H, place * H + H)
        A[..., local] *= torch.eye(H).repeat(3, 1)
        A[0, :, place * H] = 0  # a unit that nothing depends on
    weights = torch.full((N,), damping, dtype=torch.float64)
    expected = plain(A, G, weights)
    torch.testing.assert_close(levenberg_marquardt_step(A, G, weights, local), expected, rtol=1e-6, atol=1e-9)


def test_what_cannot_be_computed_is_not_a_number() -> None:
    A = torch.full((1, H, H), torch.nan, dtype=torch.float64)
    assert bool(
        levenberg_marquardt_step(A, torch.ones(1, H, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
        .isnan()
        .all()
    )
