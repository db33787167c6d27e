"""The regression in pieces: scikit-learn's numbers, and singular values that sums of products would lose."""

import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from recurra.errors import OptionError
from recurra.models.ridge import Ridge


def in_pieces(X: torch.Tensor, Y: torch.Tensor, *sizes: int) -> Ridge:
    ridge = Ridge(X.shape[1], Y.shape[1])
    for x, y in zip(X.split(sizes), Y.split(sizes), strict=True):
        ridge.add(x, y)
    return ridge


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("sizes", [(200,), (3, 150, 1, 46), (10, 10, 180)])
def test_it_equals_scikit_learn(penalty: float, sizes: tuple[int, ...]) -> None:
    X, Y = torch.randn(200, 40, dtype=torch.float64), torch.randn(200, 3, dtype=torch.float64)
    ridge = in_pieces(X, Y, *sizes)
    W = ridge.solve(penalty)
    known = Reference(alpha=penalty, fit_intercept=False, solver="svd").fit(X.numpy(), Y.numpy())
    torch.testing.assert_close(W, torch.from_numpy(known.coef_.T.copy()), rtol=0, atol=1e-10)
    torch.testing.assert_close(ridge.error(W), (X @ W - Y).square().mean(0))
    assert ridge.rows == 200


def test_small_singular_values_are_not_lost() -> None:
    """Of 1 to 1e-10: squared, the smallest would be 1e-20 beside 1, below what float64 tells apart."""
    Q, _ = torch.linalg.qr(torch.randn(300, 20, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(20, 20, dtype=torch.float64))
    X = Q * torch.logspace(0, -10, 20, dtype=torch.float64) @ V
    W = torch.randn(20, 1, dtype=torch.float64)
    Y = X @ W
    found = in_pieces(X, Y, 100, 100, 100).solve(1e-24)
    assert float((found - W).norm() / W.norm()) < 1e-4
    products = torch.linalg.solve(X.T @ X + 1e-24 * torch.eye(20, dtype=torch.float64), X.T @ Y)
    assert float((products - W).norm() / W.norm()) > 1e-2


def test_fewer_rows_than_features() -> None:
    X, Y = torch.randn(5, 9, dtype=torch.float64), torch.randn(5, 1, dtype=torch.float64)
    known = Reference(alpha=0.1, fit_intercept=False, solver="svd").fit(X.numpy(), Y.numpy())
    torch.testing.assert_close(in_pieces(X, Y, 5).solve(0.1), torch.from_numpy(known.coef_.reshape(9, 1)))


def test_a_penalty_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="positive"):
        Ridge(2, 1).solve(0.0)
