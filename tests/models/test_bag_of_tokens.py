"""Naive Bayes on a bag of tokens, inside a model."""

import torch

from recurra.models.bag_of_tokens import BagOfTokens

LENGTHS, LABELS = torch.tensor([3, 2, 2, 3]), torch.tensor([0, 1, 0, 1])
VALUES = torch.tensor([0, 0, 1, 2, 2, 0, 2, 2, 1, 2])


def fit(rows: list[int]) -> BagOfTokens:
    parts = VALUES.split(LENGTHS.tolist())
    bag = BagOfTokens(3, 2, len(rows)).double()
    bag.fit(torch.cat([parts[k] for k in rows]), LENGTHS[rows], LABELS[rows])
    return bag


def test_by_hand() -> None:
    bag = fit([0, 1, 2, 3])
    # class 0 has tokens 0, 0, 1, 0, 2; class 1 has 2, 2, 2, 1, 2; one more of each
    first, second = torch.tensor([4 / 8, 2 / 8, 2 / 8]), torch.tensor([1 / 8, 2 / 8, 5 / 8])
    scores = torch.tensor([[(first[0] * first[2]).log(), (second[0] * second[2]).log()]], dtype=torch.float64)
    found = bag(torch.tensor([[0, 2, 1]]), torch.tensor([2]))  # the last is padding
    torch.testing.assert_close(found, (scores / bag.temperature).log_softmax(-1), rtol=1e-5, atol=1e-6)


def test_left_out_is_as_if_fitted_without() -> None:
    bag = fit([0, 1, 2, 3])
    for k, part in enumerate(VALUES.split(LENGTHS.tolist())):
        without = fit([i for i in range(4) if i != k])
        without.temperature.copy_(bag.temperature)
        torch.testing.assert_close(without(part[None], LENGTHS[k : k + 1])[0], bag.held_out[k])
