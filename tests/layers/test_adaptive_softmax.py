"""The adaptive softmax: probabilities that add up to one, and a loss that is theirs although it computes less."""

import pytest
import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.layers.adaptive_softmax import AdaptiveSoftmax
from recurra.training.objectives import weighted_nll

D, V = 8, 60


@pytest.fixture
def softmax() -> AdaptiveSoftmax:
    torch.manual_seed(0)
    return AdaptiveSoftmax(D, V).double()


def test_probabilities_add_up_to_one(softmax: AdaptiveSoftmax) -> None:
    logs = softmax.eval()(torch.randn(2, 3, D).double())
    assert logs.shape == (2, 3, V)
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(2, 3).double())


@pytest.mark.parametrize("tokens", [range(V), range(4), [59], [4, 12]], ids=["all", "frequent", "last", "borders"])
def test_the_loss_is_that_of_the_probabilities(softmax: AdaptiveSoftmax, tokens: list[int]) -> None:
    """Value and every gradient, whichever clusters the targets are in."""
    targets = torch.tensor(tokens)[torch.randint(len(tokens), (4, 20))]
    weights, read = torch.rand(4, 20).double(), torch.randn(4, 20, D).double().requires_grad_()

    def found(loss: Tensor) -> list[Tensor]:
        return [loss.detach(), *torch.autograd.grad(loss, [read, *softmax.parameters()])]

    cheap = found(softmax.weighted_nll(softmax.train()(read), targets, weights))
    full = found(weighted_nll(softmax.eval()(read), targets, weights))
    for one, other in zip(cheap, full, strict=True):
        torch.testing.assert_close(one, other)


def test_a_vocabulary_without_rare_tokens_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 30 tokens; got 20"):
        AdaptiveSoftmax(D, 20)
