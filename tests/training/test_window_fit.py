"""The fixed-window model learns what its window shows, and nothing beyond."""

import math

import pytest
import torch
from torch import Tensor

from recurra.data.batches import Chunks, Sequences
from recurra.training.evaluation import evaluate_window
from recurra.training.window_fit import fit_window_model

V = 5


def order_two(count: int, first: int = 0, second: int = 1) -> Tensor:
    """y_t = y_{t−1} + y_{t−2} + 1 mod 5: known from two symbols, not from one."""
    symbols = [first, second]
    while len(symbols) < count:
        symbols.append((symbols[-1] + symbols[-2] + 1) % V)
    return torch.tensor(symbols)


def fit(train: list[Tensor], window: int, steps: int = 500, seed: int = 0):  # type: ignore[no-untyped-def]
    return fit_window_model(train, V, window, steps=steps, hidden_size=32, embedding_size=8, seed=seed)


TEXTS = [order_two(40, a, b) for a in range(V) for b in range(V)]


def test_a_rule_of_two_symbols_is_learned() -> None:
    model = fit(TEXTS, 2)
    assert not model.training
    known = order_two(61, 2, 4)
    later = [batch.targets[:, 1:] for batch in Chunks(known, 1, 60, shuffle=False).one_pass()]
    logits, _ = model(known[None, :-1])
    nats = torch.nn.functional.cross_entropy(logits[0, 1:].detach(), later[0][0])
    assert float(nats) < 0.02
    score = evaluate_window(model, Chunks(known, 1, 60, shuffle=False))
    assert score.mean < 0.1  # the second symbol of a text cannot be known
    assert score.accuracy is not None
    assert score.accuracy > 0.95


def test_a_window_of_one_symbol_is_too_short_for_it() -> None:
    short, enough = (evaluate_window(fit(TEXTS, window), Sequences(TEXTS, 8, shuffle=False)).mean for window in (1, 2))
    assert enough < 0.12
    assert short > 0.5


def test_the_first_symbol_of_a_sequence_is_given_and_what_stands_before_it_is_nothing() -> None:
    """Each sequence starts anew: its second symbol says nothing about the end of the one before."""
    starts = [torch.tensor([k % 4, 4]) for k in range(40)]
    model = fit(starts, 3)
    for first in range(4):
        logits, _ = model(torch.tensor([[first]]))
        assert float(logits[0, 0].detach().softmax(-1)[4]) > 0.99


def test_the_first_symbol_of_a_sequence_is_not_a_target() -> None:
    """Then a window of one symbol never shows the sign for "before the text": its vector stays as it was drawn."""
    few, many = (fit(TEXTS, 1, steps=steps).embedding.weight for steps in (1, 20))
    assert torch.equal(few[V], many[V])
    assert not torch.equal(few[0], many[0])


def test_the_same_seed_gives_the_same_model() -> None:
    one, two, other = (fit(TEXTS, 2, steps=5, seed=seed).output.weight for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_what_is_random_cannot_be_learned() -> None:
    random = torch.Generator().manual_seed(0)
    ids, unseen = (torch.randint(V, (4000,), generator=random) for _ in range(2))
    score = evaluate_window(fit([ids], 1), Chunks(unseen, 4, 100, shuffle=False))
    assert score.tokens == 3999
    assert score.mean == pytest.approx(math.log(V), abs=0.02)
