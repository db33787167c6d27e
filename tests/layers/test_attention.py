"""Attention: the weights, by their formula in plain loops, and what is left out."""

import math

import pytest
import torch

from recurra.errors import OptionError
from recurra.layers.attention import Attention

H, C = 4, 6


def values_of(B: int, T: int, S: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(B, T, H, dtype=torch.float64), torch.randn(B, S, C, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["additive", "dot"])
def test_the_formula(kind: str) -> None:
    attention = Attention(kind, H, C).double()
    queries, values = values_of(2, 3, 5)
    lengths = torch.tensor([5, 2])
    found = attention(queries, attention.keys(values), values, lengths)
    for b in range(2):
        for t in range(3):
            energies = []
            for s in range(int(lengths[b])):
                key = attention.key.weight @ values[b, s]
                if kind == "dot":
                    energies.append(queries[b, t] @ key / math.sqrt(H))
                else:
                    inner = attention.query.weight @ queries[b, t] + attention.query.bias + key
                    energies.append(attention.score.weight[0] @ torch.tanh(inner))
            weights = torch.stack(energies).softmax(0)
            torch.testing.assert_close(found.weights[b, t, : len(weights)], weights)
            assert torch.all(found.weights[b, t, len(weights) :] == 0)
            torch.testing.assert_close(found.values[b, t], weights @ values[b, : len(weights)])


def test_an_unknown_kind() -> None:
    with pytest.raises(OptionError, match="Did you mean 'additive'"):
        Attention("aditive", H, C)
