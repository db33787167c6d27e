"""The area under the curve is scikit-learn's, ties and all, and that of counting pairs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.metrics.roc_auc import auc


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=2, max_size=60))
def test_against_scikit_learn_and_pairs(rows: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = torch.tensor([row[0] / 7 for row in rows]), torch.tensor([row[1] for row in rows])
    found = auc(scores, labels)
    high, low = scores[labels == 1], scores[labels == 0]
    if not len(high) or not len(low):
        assert math.isnan(found)
        return
    assert found == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-12)
    wins = (high[:, None] > low).double() + (high[:, None] == low).double() / 2
    assert found == pytest.approx(float(wins.mean()), abs=1e-12)


def test_ends() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    assert auc(torch.tensor([0.1, 0.4, 0.4, 0.9]), labels) == 0.875
    assert auc(torch.arange(4.0), labels) == 1.0
    assert auc(-torch.arange(4.0), labels) == 0.0
    assert auc(torch.zeros(4), labels) == 0.5
