"""Signal and noise: two hidden Markov models side by side, of which one decides the label. Wu et al. 2018.

A signal with five states, a chain that moves to its neighbours, emits the first seven binary inputs of a step; a noise with
five states of its own, drawn anew at each step, emits the other seven. A step is positive (but for a few in a thousand) if the
signal is in its first state and the first input is on. The state is hidden: what is known of it at a step follows from the
inputs up to there. So there is a best score that no causal model can pass in the long run: `posterior` computes it exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.data.tasks import check_sizes
from recurra.types import Float, Int

STATES, EMITTED = 5, 7
FEATURES = (*(f"signal {k}" for k in range(1, EMITTED + 1)), *(f"noise {k}" for k in range(1, EMITTED + 1)))

START = np.array([0.5, 0.5, 0, 0, 0])
MOVES = np.array(
    [
        [0.7, 0.3, 0, 0, 0],
        [0.5, 0.25, 0.25, 0, 0],
        [0, 0.25, 0.5, 0.25, 0],
        [0, 0, 0.25, 0.25, 0.5],
        [0, 0, 0, 0.5, 0.5],
    ]
)
"""The chance to go from one state of the signal (row) to another (column)."""
SIGNAL = 0.5 * np.array(
    [
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 0, 1, 0, 0],
        [1, 1, 1, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 0, 1],
    ]
)
NOISE = 0.5 * np.array([[float(state <= k < state + 3) for k in range(EMITTED)] for state in range(STATES)])
"""The chance that each input is on, by state."""


def signal_and_noise(
    count: int, length: int, seed: int = 0
) -> tuple[Float[Tensor, "N T 14"], Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Sequences of the task: the inputs of each step, its label, and the hidden state of the signal behind them.

    ```python
    x, y, states = rc.data.signal_and_noise(count=100, length=50, seed=0)      # [100, 50, 14], [100, 50], [100, 50]
    ```
    """
    check_sizes("signal_and_noise", count=(count, 1), length=(length, 1))
    random = np.random.default_rng(seed % 2**64)
    states = np.zeros((count, length), dtype=np.int64)
    chances = np.broadcast_to(START, (count, STATES))
    for t in range(length):
        states[:, t] = (random.random((count, 1)) >= chances.cumsum(1)[:, :-1]).sum(1)
        chances = MOVES[states[:, t]]
    noise = random.integers(0, STATES, (count, length))
    emitted = np.concatenate([SIGNAL[states], NOISE[noise]], axis=-1)
    inputs = random.random(emitted.shape) < emitted
    labels = random.random((count, length)) < _positive(states == 0, inputs[..., 0])
    return torch.from_numpy(inputs).float(), torch.from_numpy(labels).long(), torch.from_numpy(states)


def posterior(inputs: Float[Tensor, "N T 14"]) -> Float[Tensor, "N T"]:
    """P(the step is positive | the inputs up to it): the prediction of a causal model that knows how the data were drawn.

    Exact filtering of the signal: P(state) is moved on by one step, then weighed by how likely each state emits what is seen.

    ```python
    x, y = rc.data.signal_and_noise(4, 50)[:2]
    rc.data.posterior(x)                                            # [4, 50]
    ```
    """
    seen = inputs.double().numpy()[..., :EMITTED]
    likely = np.where(seen[:, :, None] > 0.5, SIGNAL, 1 - SIGNAL).prod(-1)
    known, found = np.broadcast_to(START, (len(seen), STATES)), np.zeros(seen.shape[:2])
    for t in range(seen.shape[1]):
        weighed = known * likely[:, t]
        now = weighed / weighed.sum(1, keepdims=True)
        first = seen[:, t, 0] > 0.5
        found[:, t] = now[:, 0] * _positive(np.True_, first) + (1 - now[:, 0]) * _positive(np.False_, first)
        known = now @ MOVES
    return torch.from_numpy(found)


def _positive(in_first: npt.NDArray[np.bool_] | np.bool_, first_on: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """P(positive): the logistic function of 10 for the first state, 10 for the first input, less 15."""
    made: npt.NDArray[np.float64] = 1 / (1 + np.exp(15 - 10.0 * in_first - 10.0 * first_on))
    return made
