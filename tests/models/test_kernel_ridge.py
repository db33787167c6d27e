"""The ridge on convolution kernels: what it tells apart, what it does not look at, and its predictions for series left out."""

import math

import pytest
import torch

from recurra.models.kernel_ridge import KernelRidge, _leave_one_out


def waves(count: int, seed: int, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Slow or fast waves with any phase, in noise, all in one line, and which they are."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    parts = []
    for label, T in zip(labels.tolist(), lengths.tolist(), strict=True):
        phase = 2 * math.pi * torch.rand(1, generator=random)
        wave = torch.sin((0.5 + 0.3 * label) * torch.arange(T) + phase)
        parts.append(torch.stack([wave + 0.5 * torch.randn(T, generator=random), torch.randn(T, generator=random)], 1))
    return torch.cat(parts), labels


@pytest.fixture(scope="module")
def fitted() -> KernelRidge:
    lengths = torch.randint(30, 50, (30,), generator=torch.Generator().manual_seed(0))
    values, labels = waves(30, 1, lengths)
    ridge = KernelRidge(2, 2, 30)
    ridge.fit(values, lengths, labels)
    return ridge


def padded(lengths: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    values, labels = waves(len(lengths), seed, lengths)
    return torch.nn.utils.rnn.pad_sequence(values.split(lengths.tolist()), batch_first=True), labels


def test_frequencies_are_told_apart(fitted: KernelRidge) -> None:
    lengths = torch.randint(30, 50, (60,), generator=torch.Generator().manual_seed(5))
    series, labels = padded(lengths, 6)
    found = fitted(series, lengths)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(60))
    assert (found.argmax(1) == labels).float().mean() > 0.9
    assert (fitted.held_out.argmax(1) == torch.arange(30) % 2).float().mean() > 0.85


def test_padding_and_neighbours_change_nothing(fitted: KernelRidge) -> None:
    lengths = torch.tensor([30, 48, 35, 1])
    series, _ = padded(lengths, 7)
    together = fitted(torch.cat([series, torch.full((4, 9, 2), 7.0)], 1), lengths)
    for k, T in enumerate(lengths.tolist()):
        torch.testing.assert_close(
            fitted(series[k : k + 1, :T], lengths[k : k + 1])[0], together[k], rtol=1e-3, atol=1e-3
        )
    assert fitted(torch.zeros(1, 3, 2), torch.tensor([0])).isfinite().all()


def test_weights_alone_make_it_again(fitted: KernelRidge) -> None:
    again = KernelRidge(2, 2, 30)
    again.load_state_dict(fitted.state_dict())
    lengths = torch.tensor([40, 40])
    series, _ = padded(lengths, 8)
    assert torch.equal(again(series, lengths), fitted(series, lengths))


def test_left_out_is_as_if_fitted_without() -> None:
    torch.manual_seed(0)
    X, targets = torch.randn(12, 30, dtype=torch.float64), torch.arange(12) % 3
    X = X - X.mean(0)
    Y = 2 * torch.nn.functional.one_hot(targets, 3).double() - 1
    found = _leave_one_out(X @ X.T, Y, targets, (1, 1, 1))
    penalty = ((Y - Y.mean(0) - X @ X.T @ found.dual) / found.dual).median()
    for k in range(12):
        rest = [i for i in range(12) if i != k]
        A, B = X[rest] - X[rest].mean(0), Y[rest] - Y[rest].mean(0)
        W = torch.linalg.solve(A.T @ A + penalty * torch.eye(30), A.T @ B)
        torch.testing.assert_close((X[k] - X[rest].mean(0)) @ W + Y[rest].mean(0), found.left_out[k])


def test_what_lies_past_an_end_is_not_read() -> None:
    series = torch.randn(12, 30, 2)
    ridge = KernelRidge(channels=2, classes=2, count=12)
    ridge.fit(series.flatten(0, 1), torch.full((12,), 30), torch.arange(12) % 2)
    lengths = torch.tensor([30, 7, 19, 12] * 3)
    junk = torch.where(torch.arange(30) < lengths[:, None], 0.0, 1000.0)[..., None]
    torch.testing.assert_close(ridge(series + junk, lengths), ridge(series, lengths))
