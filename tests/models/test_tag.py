"""Taggers: one prediction per step, which depends on its own sequence alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recurra.errors import OptionError
from recurra.models.tag import Tagger
from tests.helpers import make_labeller
from tests.models.test_classify import at_the_end


def make(**options: object) -> Tagger:
    model = make_labeller(Tagger, 6, 4, "lstm", 5, engine="eager", **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


@pytest.mark.parametrize("options", [{}, {"convolution": 3}, {"layers": 2, "bidirectional": False}])
@settings(max_examples=5)
@given(lengths=st.lists(st.integers(0, 8), min_size=1, max_size=4))
@torch.no_grad()
def test_padding_and_its_side_do_not_matter(options: dict[str, object], lengths: list[int]) -> None:
    model, known = make(**options), torch.tensor(lengths)
    T = max(lengths) + 2
    x = torch.randn(len(lengths), T, 6, dtype=torch.float64)
    scores = model(x, known)
    assert scores.shape == (len(lengths), T, 4)
    behind = model(at_the_end(x, known), known, padding="start")
    for k, n in enumerate(lengths):
        if n:
            alone = model(x[k : k + 1, :n])[0]
            torch.testing.assert_close(scores[k, :n], alone, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(behind[k, T - n :], alone, rtol=1e-10, atol=1e-10)


def test_tokens() -> None:
    model = make(tokens=True)
    hidden = model.recurrent(model.embedding(torch.tensor([[1, 5, 2]]))).outputs
    torch.testing.assert_close(model(torch.tensor([[1, 5, 2]])), model.output(hidden))


def test_pooling_is_refused() -> None:
    with pytest.raises(OptionError, match="fewer steps than there are tags"):
        make(convolution=3, pool=2)
