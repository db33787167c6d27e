"""Channels mixed until sequences of a class differ alike in all directions."""

import numpy as np
import pytest

from recurra.data.whitening import whiten_within_classes
from recurra.errors import DataError


def make(count: int = 4000, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Classes lie along the second channel; sequences of a class differ far more along the first, and both together."""
    random = np.random.default_rng(seed)
    spread = np.array([[5.0, 1.0], [0.0, 0.5]])
    labels = [str(k % 3) for k in range(count)]
    lengths = random.integers(1, 6, count)
    return [
        np.array([0, 4.0 * int(label)]) + random.normal(size=2) @ spread + 0.1 * random.normal(size=(T, 2))
        for label, T in zip(labels, lengths, strict=True)
    ], labels


def within(sequences: list[np.ndarray], labels: list[str]) -> np.ndarray:
    """The covariance of means of sequences about the mean of their class, one sequence at a time."""
    means = {
        c: np.mean([s.mean(0) for s, l in zip(sequences, labels, strict=True) if l == c], axis=0) for c in set(labels)
    }
    apart = [s.mean(0) - means[label] for s, label in zip(sequences, labels, strict=True)]
    return np.mean([np.outer(a, a) for a in apart], axis=0)


def test_sequences_of_a_class_differ_alike_in_all_directions() -> None:
    sequences, labels = make()
    before = within(sequences, labels)
    assert before[0, 0] > 10 * before[1, 1]
    W = whiten_within_classes(sequences, labels, 1.0)
    after = within([sequence @ W for sequence in sequences], labels)
    np.testing.assert_allclose(after / after[0, 0], np.eye(2), atol=1e-9)


def test_a_share_of_the_way() -> None:
    sequences, labels = make()
    np.testing.assert_allclose(whiten_within_classes(sequences, labels, 0.0), np.eye(2), atol=1e-12)
    S = within(sequences, labels)
    part = 0.4 * np.eye(2) * S.trace() / 2 + 0.6 * S
    W = whiten_within_classes(sequences, labels, 0.6)
    found = W @ part @ W
    np.testing.assert_allclose(found / found[0, 0], np.eye(2), atol=1e-9)


def test_numbers_keep_their_size() -> None:
    sequences, labels = make()
    steps = np.concatenate(sequences)
    W = whiten_within_classes(sequences, labels, 0.7)
    assert (steps @ W).var(0).sum() == pytest.approx(steps.var(0).sum())


def test_a_channel_that_never_changes_and_few_sequences() -> None:
    sequences = [np.array([[1.0, 0, 2]]), np.array([[2.0, 0, 1], [0, 0, 0]]), np.zeros((0, 3))]
    assert np.isfinite(whiten_within_classes(sequences, ["a", "a", "b"], 0.99)).all()


def test_classes_of_one_sequence_are_refused() -> None:
    with pytest.raises(DataError, match="give two or more of a class"):
        whiten_within_classes([np.ones((2, 1)), np.zeros((3, 1))], ["a", "b"], 0.5)
