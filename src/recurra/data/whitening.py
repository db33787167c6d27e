"""Whitening within classes: a linear map of channels after which sequences of one class vary alike in every direction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from recurra.errors import DataError

Array = npt.NDArray[np.float64]


def whiten_within_classes(sequences: list[Array], labels: list[str], share: float) -> Array:
    """The matrix `[D, D]` that sequences `[T, D]` are multiplied by: W = k ((1 − a) s I + a S)^(−1/2).

    S is the covariance, within classes, of the means of sequences; s, the mean of its diagonal; a, the `share`: with 0 nothing
    changes, and below 1 the inverse exists however few sequences there are. k leaves the variance of all steps, summed over
    channels, as it was. Hatch et al. 2006, "Within-class covariance normalization".

    ```python
    W = whiten_within_classes(sequences, labels, share=0.7)
    sequences[0] @ W
    ```
    """
    means = np.stack([sequence.mean(0) for sequence in sequences if len(sequence)])
    _, classes = np.unique(
        [label for sequence, label in zip(sequences, labels, strict=True) if len(sequence)], return_inverse=True
    )
    counts = np.bincount(classes)
    sums = np.zeros((len(counts), means.shape[1]))
    np.add.at(sums, classes, means)
    apart = means - (sums / counts[:, None])[classes]
    S = apart.T @ apart / len(apart)
    s = S.trace() / len(S)
    if s <= 1e-12:
        raise DataError(
            "data.whiten looks at how sequences of one class differ, but here they do not: give two or more of a class, or "
            "leave it out."
        )
    sizes, directions = np.linalg.eigh((1 - share) * s * np.eye(len(S)) + share * S)
    W: Array = directions / np.sqrt(sizes) @ directions.T
    steps = np.concatenate(sequences)
    W *= np.sqrt(steps.var(0).sum() / (steps @ W).var(0).sum())
    return W
