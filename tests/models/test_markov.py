"""Counting, against the definition written out with dictionaries, and against numbers worked out by hand."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.errors import DataError, OptionError
from recurra.models import markov
from recurra.models.markov import Markov, best_markov


class Plain:
    """Interpolated Kneser–Ney as its definition reads: one dictionary for each length of run."""

    def __init__(self, sequences, order, V):
        self.order, self.V = order, V
        raw = Counter(
            tuple(padded[t - order : t + 1])
            for padded in ([V] * order + sequence for sequence in sequences)
            for t in range(order + 1, len(padded))
        )
        self.counts = {order: raw}
        for n in range(order - 1, -1, -1):
            self.counts[n] = Counter(run[1:] for run in self.counts[n + 1])
        self.following = {n: defaultdict(dict) for n in self.counts}
        for n, counts in self.counts.items():
            for run, count in counts.items():
                self.following[n][run[:-1]][run[-1]] = count
        self.discounts = {n: self.estimate(counts) for n, counts in self.counts.items()}

    @staticmethod
    def estimate(counts):
        n = Counter(counts.values())
        if n[1] and n[2] and n[3] and n[4]:
            Y = n[1] / (n[1] + 2 * n[2])
            D = [k - (k + 1) * Y * n[k + 1] / n[k] for k in (1, 2, 3)]
            if min(D) > 0:
                return D
        return [0.5, 0.5, 0.5]

    def p(self, symbol, before):
        """`before` is all that came before in the sequence."""
        context = ([self.V] * self.order + list(before))[len(before) :]
        p = 1 / self.V
        for n in range(self.order + 1):
            following = self.following[n].get(tuple(context[self.order - n :]))
            if not following:
                break
            total = sum(following.values())
            discount = lambda count, D=self.discounts[n]: D[min(count, 3) - 1]  # noqa: E731
            p *= sum(discount(count) for count in following.values()) / total
            if symbol in following:
                p += (following[symbol] - discount(following[symbol])) / total
        return p


@st.composite
def data(draw):
    V = draw(st.integers(1, 4))
    sequence = st.lists(st.integers(0, V - 1), min_size=2, max_size=40)
    return V, draw(st.lists(sequence, min_size=1, max_size=4)), draw(st.lists(sequence, min_size=1, max_size=3))


@pytest.mark.parametrize("order", [0, 1, 2, 4])
@given(data=data())
def test_it_is_what_the_definition_says(order, data):
    V, train, new = data
    model, plain = Markov.fit([torch.tensor(s) for s in train], order, V), Plain(train, order, V)
    expected = [math.log(plain.p(s[t], s[:t])) for s in new for t in range(1, len(s))]
    found = model.log_probabilities([torch.tensor(s) for s in new])
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert model.score([torch.tensor(s) for s in new]) == pytest.approx(-sum(expected) / len(expected))
    for sequence in new:
        p = model.probabilities(sequence)
        assert p.tolist() == pytest.approx([plain.p(symbol, sequence) for symbol in range(V)])
        assert float(p.sum()) == pytest.approx(1, abs=1e-12)


def test_a_case_by_hand():
    """0 1 0 1 1: the pairs are 01 twice, 10 and 11 once. Before 1 there are two symbols, before 0 one. Discounts are 1/2.

    P(1) = 1.5/3 + 1/3 · 1/2 = 2/3 and P(0) = 1/3; P(1|0) = 1.5/2 + 1/4 · 2/3 = 11/12; P(0|1) = 0.5/2 + 1/2 · 1/3 = 5/12.
    """
    model = Markov.fit(torch.tensor([0, 1, 0, 1, 1]), order=1, vocabulary_size=2)
    assert model.order == 1
    assert model.probabilities([0]).tolist() == pytest.approx([1 / 12, 11 / 12])
    assert model.probabilities(torch.tensor([0, 0, 1])).tolist() == pytest.approx([5 / 12, 7 / 12])
    assert model.probabilities([]).tolist() == pytest.approx([1 / 3, 2 / 3])
    assert model.score(torch.tensor([1, 0, 1])) == pytest.approx(-(math.log(5 / 12) + math.log(11 / 12)) / 2)


def test_the_discounts_of_chen_and_goodman():
    """Runs seen 1, 2, 3 and 4 times: 10, 4, 2 and 1 of them; Y = 10/18."""
    counts = np.repeat([0, 1, 2, 3, 4, 9], [5, 10, 4, 2, 1, 7])
    assert markov._discounts(counts).tolist() == pytest.approx([0, 5 / 9, 7 / 6, 17 / 9])
    assert markov._discounts(counts[counts != 3]).tolist() == [0, 0.5, 0.5, 0.5]
    wild = np.repeat([1, 2, 3, 4], [10, 1, 9, 1])  # the discount of 2 would be below 0
    assert markov._discounts(wild).tolist() == [0, 0.5, 0.5, 0.5]


def text(length, V=12, seed=0):
    """Text with memory: the next symbol depends on the last two, with noise."""
    random = np.random.default_rng(seed)
    table = np.random.default_rng(99).integers(V, size=(V, V, 3))
    choice, noise = random.integers(3, size=length), random.integers(V * 8, size=length)
    ids = [0, 1]
    for pick, other in zip(choice, noise, strict=True):
        ids.append(int(other) if other < V else int(table[ids[-2], ids[-1], pick]))
    return torch.tensor(ids)


def test_probabilities_sum_to_one_and_are_those_of_the_score():
    ids, new = text(20_000), text(40, seed=1)
    model = Markov.fit(ids, 3, 15)  # three symbols are never seen
    logs = model.log_probabilities(new)
    for t in range(1, len(new)):
        p = model.probabilities(new[:t])
        assert float(p.sum()) == pytest.approx(1, abs=1e-12)
        assert float(p.min()) > 0
        assert float(p[new[t]].log()) == pytest.approx(float(logs[t - 1]))


def test_the_score_does_not_depend_on_how_the_text_is_cut(monkeypatch):
    ids = text(500)
    for order in (0, 1, 4):
        model = Markov.fit(ids, order, 12)
        new = [text(50, seed=1), text(8, seed=2), text(30, seed=3)]
        whole = model.log_probabilities(new)
        for chunk in (1, 3, 7):
            with monkeypatch.context() as patched:
                patched.setattr(markov, "CHUNK", chunk)
                torch.testing.assert_close(model.log_probabilities(new), whole)
    assert len(whole) == sum(len(one) - 1 for one in new)


def test_sequences_do_not_see_each_other():
    sequences = [torch.tensor([5, 0, 1, 6])] * 30 + [torch.tensor([5, 2, 3, 6])] * 30
    model = Markov.fit(sequences, 2, 7)
    assert model.probabilities([5]).argmax() in (0, 2)
    assert float(model.probabilities([5])[[0, 2]].sum()) > 0.9
    assert float(model.probabilities([5, 2])[3]) > 0.9
    assert model.score(sequences) == pytest.approx(math.log(2) / 3, abs=0.05)
    assert float(model.probabilities([1, 6])[5]) < 0.1, "what starts the next sequence does not follow this one"


def test_the_best_order_is_chosen_on_validation_data():
    train, valid = text(30_000), text(3000, seed=1)
    best = best_markov(train, valid, 12)
    scores = {order: Markov.fit(train, order, 12).score(valid) for order in range(1, 7)}
    assert best.order == min(scores, key=scores.get) == 2
    assert best.score(valid) == pytest.approx(scores[2], abs=1e-12)
    assert best.score(valid) < math.log(12) - 0.8
    assert best_markov(train, valid, 12, orders=[1]).order == 1
    assert best_markov([train[:500]], [valid[:50], valid[50:90]], 12, orders=(3, 1)).order in (1, 3)


@pytest.mark.parametrize(
    ("ask", "error", "expected"),
    [
        (lambda: Markov.fit(text(9), -1, 12), OptionError, "0 or more; got -1"),
        (lambda: Markov.fit(text(9), 1, 2), DataError, r"Tokens must be 0 to 1 \(vocabulary_size=2\); found 0 to \d"),
        (lambda: Markov.fit(torch.tensor([1]), 1, 2), DataError, "at least 2 tokens"),
        (lambda: Markov.fit([], 1, 2), DataError, "at least 2 tokens"),
        (lambda: Markov.fit(text(9), 1, 12).score(torch.tensor([0, -1])), DataError, "found -1 to 0"),
        (lambda: Markov.fit(text(9), 1, 12).probabilities([12]), DataError, "found 12 to 12"),
        (lambda: best_markov(text(9), text(9), 12, orders=()), OptionError, "at least one order"),
    ],
)
def test_what_cannot_be_counted(ask, error, expected):
    with pytest.raises(error, match=expected):
        ask()
