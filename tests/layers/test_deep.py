"""Extra layers around the recurrence."""

import pytest
import torch

from recurra.errors import OptionError
from recurra.layers.deep import DeepLinear, deepen
from tests.helpers import make_language_model


def test_layers_are_tanh_of_linear_maps():
    torch.manual_seed(0)
    deep = DeepLinear(4, 3, 2).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    by_hand = x
    for layer in deep.before:
        by_hand = torch.tanh(by_hand @ layer[0].weight.T + layer[0].bias)
    torch.testing.assert_close(deep(x), by_hand @ deep.weight.T + deep.bias)


def test_none_of_them_change_nothing():
    x = torch.randn(2, 3)
    assert torch.equal(deepen(3, 0)(x), x)
    assert list(DeepLinear(3, 2).state_dict()) == ["weight", "bias"]
    with pytest.raises(OptionError, match="must not be negative"):
        deepen(3, -1)


def test_a_language_model_streams_with_them():
    torch.manual_seed(0)
    model = make_language_model(6, "gru", 5, deep_input=1, deep_output=2).double().eval()
    tokens = torch.randint(6, (3, 8))
    whole, _ = model(tokens)
    state = None
    for t in range(8):
        logits, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, whole[:, t])
