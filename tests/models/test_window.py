"""The fixed-window language model sees the last symbols and no more."""

import pytest
import torch

from recurra.errors import OptionError
from recurra.models.window import WindowLanguageModel

V, B, T = 5, 2, 9


def make_model(window: int) -> WindowLanguageModel:
    return WindowLanguageModel(V, window, 4, 8).double()


@pytest.mark.parametrize("window", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_calls_with_the_past_equal_one_call(window: int, cut: int) -> None:
    model, tokens = make_model(window), torch.randint(V, (B, T))
    whole, last = model(tokens)
    assert whole.shape == (B, T, V)
    first, past = model(tokens[:, :cut])
    second, end = model(tokens[:, cut:], past)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=0, atol=1e-12)
    assert torch.equal(end, last)
    assert end.shape == (B, window - 1)


def test_it_sees_its_window_and_no_more() -> None:
    model, tokens = make_model(3), torch.randint(V, (B, T))
    other = tokens.clone()
    other[:, 4] = (other[:, 4] + 1) % V
    changed = (model(tokens)[0] - model(other)[0]).abs().amax((0, 2)) > 1e-9
    assert changed.tolist() == [False] * 4 + [True] * 3 + [False] * 2


def test_its_equation() -> None:
    """softmax(V tanh(W [e(y_{t-1}), e(y_t)] + b) + c), written out for one step; each place has weights of its own."""
    model, tokens = make_model(2), torch.tensor([[3, 1]])
    E = model.embedding.weight
    W = model.hidden.weight.view(8, 2, 4)
    hidden = torch.tanh(W[:, 0] @ E[3] + W[:, 1] @ E[1] + model.hidden.bias)
    torch.testing.assert_close(model(tokens)[0][0, 1], model.output.weight @ hidden + model.output.bias)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_window_alone_predicts_what_the_text_predicts(window: int) -> None:
    model, tokens = make_model(window), torch.randint(V, (B, T))
    whole, _ = model(tokens)
    for t in range(window - 1, T):
        found = model.predict(tokens[:, t - window + 1 : t + 1])
        torch.testing.assert_close(found, whole[:, t], rtol=0, atol=1e-12)
    blank = torch.full((B, window - 1), V)
    torch.testing.assert_close(model.predict(torch.cat([blank, tokens[:, :1]], 1)), whole[:, 0], rtol=0, atol=1e-12)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 1; got 0"):
        make_model(0)
