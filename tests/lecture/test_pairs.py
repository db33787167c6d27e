"""Which gradients a truncation keeps, held to what training with that truncation really computes."""

import pytest
import torch

import recurra as rc


@pytest.mark.parametrize("truncation", ["none", "every:4", "every:3", "window:2", "window:5"])
def test_the_kept_pairs_are_those_that_training_has(truncation):
    """A token of its own at every step: its embedding has a gradient if the loss at step t reaches that step."""
    T = 10
    torch.manual_seed(0)
    model = rc.models.LanguageModel(T, rc.Recurrent("elman", 6, 6)).double()
    found, how = rc.lecture.kept_pairs(truncation, T), rc.training.read_truncation(truncation)
    ids, targets = torch.arange(T)[None], torch.zeros(1, T, dtype=torch.long)
    table = next(parameter for name, parameter in model.named_parameters() if "embed" in name)
    for t in range(T):
        model.zero_grad()
        weights = torch.zeros(1, T, dtype=torch.float64)
        weights[0, t] = 1
        rc.training.backward(model, ids, targets, weights, how, rc.training.weighted_nll)
        reached = [bool(table.grad[t - k].abs().sum() > 0) for k in range(t + 1)]
        assert reached == found.kept[t, : t + 1].tolist()
    assert not bool(found.kept[0, 1:].any())


def test_share_and_words():
    assert rc.lecture.kept_pairs("none", 7).share == 1
    assert str(rc.lecture.kept_pairs("every:2", 4)) == "every:2 keeps 60 % of the pairs of 4 steps"
    with pytest.raises(rc.OptionError):
        rc.lecture.kept_pairs("some:2", 4)
    with pytest.raises(rc.OptionError):
        rc.lecture.kept_pairs("none", 10**9)
