"""How far back gradients flow: f(t) is the earliest step that the gradient of the loss at step t reaches.

| object | f(t) | |
|---|---|---|
| `none()` | 0 | untruncated |
| `every(k)` | k ⌊t/k⌋ | the sequence is cut into chunks of k steps |
| `window(k)` | max(0, t − k) | each loss reaches k steps back |

The forward run is never truncated: the state always goes on. Steps count from 0, and the step f(t) itself is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recurra.errors import OptionError, choose_from, quoted
from recurra.layers.states import detach
from recurra.models.sequence import SequenceModel
from recurra.types import Float, Int, State

Loss = Callable[[Float[Tensor, "B T V"], Tensor, Float[Tensor, "B T"]], Tensor]
"""Predictions, targets and the weight of each step, to a number."""


@dataclass(frozen=True)
class Truncation:
    """One of the three forms; `k` is None for `none`."""

    form: str
    k: int | None = None

    def __str__(self) -> str:
        return self.form if self.k is None else f"{self.form}:{self.k}"

    def earliest(self, t: int) -> int:
        """f(t)."""
        if self.form == "every":
            assert self.k is not None
            return self.k * (t // self.k)
        return max(0, t - self.k) if self.k is not None else 0


def none() -> Truncation:
    return Truncation("none")


def every(k: int) -> Truncation:
    return Truncation("every", _positive("every", k))


def window(k: int) -> Truncation:
    return Truncation("window", _positive("window", k))


def _positive(form: str, k: int) -> int:
    if k < 1:
        raise OptionError(f"truncation {form}:{k} reaches back no step. Give a number of at least 1, e.g. {form}:64.")
    return k


def read_truncation(text: str) -> Truncation:
    """`none`, `every:128` or `window:32`.

    ```python
    rc.training.read_truncation("every:128")
    ```
    """
    found = re.fullmatch(r"(\w+)(?::(\d+))?", text.strip())
    if found:
        form = choose_from("truncation", found[1], ("none", "every", "window"))
        if form == "none" and found[2] is None:
            return none()
        if form != "none" and found[2] is not None:
            return every(int(found[2])) if form == "every" else window(int(found[2]))
    raise OptionError(f"truncation {quoted(text)} cannot be read. Write none, every:128 or window:32.")


def backward(
    model: SequenceModel,
    inputs: Tensor,
    targets: Tensor,
    weights: Float[Tensor, "B T"],
    truncation: Truncation,
    loss: Loss,
    state: State | None = None,
    lengths: Int[Tensor, " B"] | None = None,
    *,
    overlap: int = 0,
) -> tuple[Tensor, State]:
    """Add the truncated gradient of Σ_t weight_t · L_t to the parameters; the loss, and the state after the last step.

    `every` goes through the sequence chunk by chunk and frees each chunk's memory at once, so that memory grows with k and
    not with T. A `state` that has a gradient, such as a learned first one, gets it from the first chunk. `window` runs all
    windows as one batch; with `overlap`, the state that it gives is that before the last `overlap` steps, so that the next
    call can read those steps again and reach back over the border.

    ```python
    model = rc.models.LanguageModel(3, rc.Recurrent("gru", 8, 8))
    ids, how = torch.randint(3, (2, 21)), rc.training.read_truncation("every:10")
    loss, state = rc.training.backward(
        model, ids[:, :-1], ids[:, 1:], torch.full((2, 20), 1 / 40), how, rc.training.weighted_nll
    )
    ```
    """
    if truncation.form == "window":
        return _windows(model, inputs, targets, weights, truncation, loss, state, lengths, overlap)
    T = inputs.shape[1]
    k = truncation.k or T
    total = torch.zeros((), device=inputs.device, dtype=weights.dtype)
    for start in range(0, T, k):
        chunk = slice(start, start + k)
        inside = None if lengths is None else (lengths - start).clamp(0, min(k, T - start))
        logits, final = model(inputs[:, chunk], detach(state) if start else state, inside)
        value = loss(logits, targets[:, chunk], weights[:, chunk])
        value.backward()
        total += value.detach()
        state = final
    final_state = detach(state)
    assert final_state is not None
    return total, final_state


def _windows(
    model: SequenceModel,
    inputs: Tensor,
    targets: Tensor,
    weights: Tensor,
    truncation: Truncation,
    loss: Loss,
    state: State | None,
    lengths: Tensor | None,
    overlap: int,
) -> tuple[Tensor, State]:
    """Every step's window from the state before it, which a run without gradients has recorded."""
    B, T = inputs.shape[:2]
    device = inputs.device
    initial = state if state is not None else model.recurrent.initial_state(B)
    with torch.no_grad():
        trace = model.recurrent(model.embed(inputs), detach(initial), lengths, record=True)
    assert trace.record is not None
    record = trace.record
    cells = model.recurrent.cells
    starts = torch.tensor([truncation.earliest(t) for t in range(T)], device=device)
    counts = torch.arange(T, device=device) - starts + 1
    most = int(counts.max())
    steps = (starts[:, None] + torch.arange(most, device=device)).clamp(max=T - 1)  # [T, most]

    def before(first: Tensor, recorded: Tensor, moments: Tensor) -> Tensor:
        """A state before each of some steps: as given before step 0 (with its gradient, if it is learned), else recorded."""
        history = first if first.ndim == 3 else first[:, None]
        K = history.shape[1]
        values = torch.cat([history, recorded], dim=1)  # value i + K is that after step i
        rows = values[:, moments[:, None] + torch.arange(K, device=device)]  # [B, N, K, H]
        rows = torch.where((moments == 0)[:, None, None], rows, rows.detach())
        flat = rows.reshape(B * len(moments), K, -1)
        return flat if first.ndim == 3 else flat[:, 0]

    def states_before(moments: Tensor) -> State:
        return tuple(
            tuple(
                tuple(before(first, one[name], moments) for first, name in zip(states, cell.states, strict=True))
                for states, one in zip(layer, ones, strict=True)
            )
            for layer, ones, cell in zip(initial, record, cells, strict=True)
        )

    windows = inputs[:, steps].reshape(B * T, most, *inputs.shape[2:])
    hidden, _ = model.hidden(windows, states_before(starts), counts.repeat(B))
    last = hidden[torch.arange(B * T, device=device), counts.repeat(B) - 1].view(B, T, -1)
    value = loss(model.output(last), targets, weights)
    value.backward()
    final = detach(states_before(torch.tensor([T - overlap], device=device)) if overlap else trace.final)
    assert final is not None
    return value.detach(), final
