"""Made-up tasks: what they ask can be checked from the inputs alone, and the naive answers score as stated."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.data.tasks import adding, adding_baseline, copying, copying_baseline, flip_flop
from recurra.errors import OptionError


@given(length=st.integers(2, 30), seed=st.integers(0, 99))
def test_adding_asks_for_the_sum_of_what_is_marked(length, seed):
    inputs, targets = adding(20, length, seed)
    assert inputs.shape == (20, length, 2)
    numbers, marks = inputs.unbind(-1)
    assert torch.equal(marks[:, : length // 2].sum(1), torch.ones(20))
    assert torch.equal(marks[:, length // 2 :].sum(1), torch.ones(20))
    assert set(marks.unique().tolist()) <= {0, 1}
    assert 0 <= numbers.min() <= numbers.max() < 1
    torch.testing.assert_close(targets, (numbers * marks).sum(1))


def test_adding_marks_every_step_and_its_naive_answer_scores_as_stated():
    inputs, targets = adding(20_000, 9, seed=0)
    assert (inputs[:, :, 1].mean(0) > 0.15).all()
    assert float(((targets - 1) ** 2).mean()) == pytest.approx(adding_baseline(), rel=0.03)


@given(length=st.integers(1, 30), symbols=st.integers(1, 9), span=st.integers(1, 12), seed=st.integers(0, 99))
def test_copying_asks_for_what_was_said(length, symbols, span, seed):
    inputs, targets = copying(7, length, seed, symbols, span)
    blank = symbols
    assert inputs.shape == targets.shape == (7, length + 2 * span)
    said = inputs[:, :span]
    assert 0 <= said.min() <= said.max() < symbols
    assert torch.equal(targets[:, -span:], said)
    assert (targets[:, :-span] == blank).all()
    assert (inputs[:, span : span + length - 1] == blank).all()
    assert (inputs[:, span + length - 1] == symbols + 1).all()
    assert (inputs[:, span + length :] == blank).all()
    assert inputs.dtype == targets.dtype == torch.int64


def test_copying_uses_every_symbol_and_its_naive_answer_scores_as_stated():
    inputs, targets = copying(50, 5)
    assert inputs.unique().tolist() == list(range(10))
    naive = torch.full((50, 25, 9), -math.inf)
    naive[:, :15, 8] = 0
    naive[:, 15:, :8] = math.log(1 / 8)
    loss = torch.nn.functional.cross_entropy(naive.flatten(0, 1), targets.flatten())
    assert float(loss) == pytest.approx(copying_baseline(5))
    assert copying_baseline(1000) == pytest.approx(10 * math.log(8) / 1020)


@pytest.mark.parametrize("task", [adding, copying])
def test_a_seed_says_what_comes(task):
    first, again, other = task(5, 8, 1), task(5, 8, 1), task(5, 8, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: adding(1, 1, 0), "adding: length must be at least 2; got 1"),
        (lambda: adding(0, 5, 0), "adding: count must be at least 1; got 0"),
        (lambda: copying(1, 0, 0), "copying: length must be at least 1; got 0"),
        (lambda: copying(1, 1, 0, span=0), "copying: span must be at least 1; got 0"),
    ],
)
def test_sizes_that_make_no_sense(ask, expected):
    with pytest.raises(OptionError, match=expected):
        ask()


@given(delay=st.integers(0, 12), seed=st.integers(0, 99))
def test_a_delayed_flip_flop_says_later_what_it_would_have_said(delay, seed):
    pulses, now = flip_flop(4, 10, seed, bits=2)
    same, late = flip_flop(4, 10, seed, bits=2, delay=delay)
    assert torch.equal(pulses, same)
    assert torch.equal(late[:, delay:], now[:, : max(0, 10 - delay)])
    assert (late[:, :delay] == 0).all()
