"""Signal and noise: the chains are those of the tables, and filtering is the posterior that summing over all states gives."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from recurra.data.signal_noise import EMITTED, MOVES, NOISE, SIGNAL, START, STATES, posterior, signal_and_noise
from recurra.errors import OptionError
from recurra.metrics.roc_auc import auc


def test_tables_are_chances() -> None:
    assert START.sum() == 1
    assert np.allclose(MOVES.sum(1), 1)
    assert SIGNAL.shape == NOISE.shape == (STATES, EMITTED)
    assert np.array_equal(NOISE.sum(1), np.full(STATES, 1.5))


def test_what_is_made_follows_the_tables() -> None:
    x, y, states = signal_and_noise(2000, 50, seed=1)
    assert (x.shape, y.shape, states.shape) == ((2000, 50, 14), (2000, 50), (2000, 50))
    pairs = torch.bincount(states[:, :-1].flatten() * STATES + states[:, 1:].flatten(), minlength=STATES**2).double()
    moves = pairs.view(STATES, STATES) / pairs.view(STATES, STATES).sum(1, keepdim=True)
    assert np.allclose(moves.numpy(), MOVES, atol=0.02)
    assert set(states[:, 0].tolist()) == {0, 1}
    for state in range(STATES):
        assert np.allclose(x[states == state][:, :EMITTED].mean(0).numpy(), SIGNAL[state], atol=0.02)
    assert np.allclose(x[..., EMITTED:].mean((0, 1)).numpy(), NOISE.mean(0), atol=0.02)
    rule = (states == 0) & (x[..., 0] == 1)
    assert float(((y == 1) != rule).double().mean()) == pytest.approx(0.0067 / 2 + 0.0067 * 0.15, abs=0.003)


def test_seeds() -> None:
    one, again, other = (signal_and_noise(5, 20, seed=k)[0] for k in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_posterior_is_a_sum_over_all_paths_of_states() -> None:
    x, _, _ = signal_and_noise(4, 4, seed=2)
    found = posterior(x)
    for n in range(4):
        for t in range(4):
            seen = x[n, : t + 1, :EMITTED].numpy()
            first = total = 0.0
            for path in product(range(STATES), repeat=t + 1):
                chance = START[path[0]] * np.prod([MOVES[a, b] for a, b in pairwise(path)])
                chance *= np.prod([np.where(seen[k] > 0, SIGNAL[s], 1 - SIGNAL[s]).prod() for k, s in enumerate(path)])
                total += chance
                first += chance * (path[-1] == 0)
            inside = first / total
            logits = 10 * float(seen[t, 0]) - 15 + np.array([10, 0])
            expected = (np.array([inside, 1 - inside]) / (1 + np.exp(-logits))).sum()
            assert float(found[n, t]) == pytest.approx(expected, abs=1e-12)


def test_posterior_is_calibrated_and_beats_what_one_step_says() -> None:
    x, y, _ = signal_and_noise(3000, 50, seed=5)
    said, true = posterior(x).flatten(), y.flatten()
    for low in np.arange(0, 1, 0.2):
        within = (said > low) & (said <= low + 0.2)
        assert float(said[within].mean()) == pytest.approx(float(true[within].double().mean()), abs=0.02)
    key = (x @ (2.0 ** torch.arange(14))).long().flatten()
    shares = torch.bincount(key, weights=true.double()) / torch.bincount(key).clamp(min=1)
    # the shares were counted on the very data that they are judged by, and still lie below
    assert auc(said, true) > auc(shares[key], true) + 0.01


@pytest.mark.parametrize(("count", "length"), [(0, 5), (5, 0)])
def test_nothing_to_make(count: int, length: int) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        signal_and_noise(count, length)
