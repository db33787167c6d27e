"""Streams: a trained model reads a sequence as it comes, and keeps its state.

A task tells how its model reads a stream (`Streaming`: what may be sent, and what a prediction says). `Streamer` runs many
streams of one model side by side; what one of them gets does not depend on the others, bit for bit. `Stream` is one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from recurra.errors import DataError, OptionError
from recurra.layers.recurrent import Recurrent
from recurra.layers.rowwise import by_rows, runs_by_rows
from recurra.models.counted import CountedLanguageModel
from recurra.models.heads import Bernoulli, Chain, Head
from recurra.models.sequence import SequenceModel
from recurra.types import Float, State

TOGETHER = 16_384
"""How many steps of all streams are computed in one call, at most: what they predict is held in memory meanwhile."""

Answer = dict[str, Any]
"""A prediction as JSON has it."""


@dataclass(frozen=True, eq=False)
class Streaming:
    """How a trained model reads a stream.

    - `reads`: what may be sent, in words. `encode`: from that to what the model reads, `[T]` tokens or `[T, C]` numbers.
    - `answer`: what the outputs of some steps `[N, V]` say, each with at most so many names; each row by itself.
    - `opening`: what the model reads before the first input.
    """

    model: SequenceModel | CountedLanguageModel
    reads: str
    encode: Callable[[Any], Tensor]
    answer: Callable[[Float[Tensor, "N V"], int], list[Answer]]
    opening: Tensor | None = None


class Streamer:
    """Runs many streams of one model side by side.

    - `exact`: whether a stream gets the same bits whatever is run beside it, and however its inputs are cut into calls. So it is
      on the CPU where kernels can be compiled.
    - `first`: the state of a new stream, a flat vector; `opened`: what is predicted before the first input, if anything is.
    """

    def __init__(self, streaming: Streaming):
        self.streaming = streaming
        self._turn = threading.Lock()  # linear maps by rows have buffers of their own
        model = streaming.model.eval()
        self.exact = runs_by_rows(model.recurrent)
        self.model = cast(SequenceModel, by_rows(model) if self.exact else model)
        layers: Recurrent = self.model.recurrent
        self.shapes = {
            f"{k}.{state.name}": (one.hidden_size,) if state.depth == 1 else (state.depth, one.hidden_size)
            for k, (one, *_) in enumerate(layers.stack)
            for state in one.cell.graph.states
        } | self.model.remembers
        self._tokens: dict[str, int] = {}  # what is remembered as tokens, and the largest
        if isinstance(streaming.model, CountedLanguageModel):
            self._tokens = dict.fromkeys(streaming.model.remembers, streaming.model.counts.vocabulary_size)
        with torch.inference_mode():
            self.first = self._flat(self.model.initial_state(1))[0]
        self.opened: Tensor | None = None
        if streaming.opening is not None:
            (predicted,), (self.first,) = self.run([self.first], [streaming.opening])
            self.opened = predicted[-1:]

    @torch.inference_mode()
    def run(
        self, states: Sequence[Float[Tensor, " S"]], inputs: Sequence[Tensor]
    ) -> tuple[list[Float[Tensor, "T V"]], list[Float[Tensor, " S"]]]:
        """What each stream predicts after each of its inputs, and its state after the last. Streams may be of any lengths."""
        with self._turn:
            return self._run(states, inputs)

    def _run(self, states: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        predictions: list[Any] = [None] * len(states)
        after: list[Any] = [None] * len(states)
        sizes = [each.shape[0] for each in inputs]
        for group in _groups(sizes):
            longest, equal = sizes[group[-1]], sizes[group[0]] == sizes[group[-1]]
            if equal:
                x, lengths = torch.stack([inputs[k] for k in group]), None
            else:
                x, lengths = pad_sequence([inputs[k] for k in group], True), torch.tensor([sizes[k] for k in group])
            state = self._nested(torch.stack([states[k] for k in group]))
            predicted, final = self.model(x, state, lengths)
            for k, row, last in zip(group, predicted.unbind(), self._flat(final).unbind(), strict=True):
                predictions[k] = row if sizes[k] == longest else row[: sizes[k]]
                after[k] = last.clone()  # a view would keep the states of the whole call
        return predictions, after

    def named(self, state: Float[Tensor, " S"]) -> dict[str, Any]:
        """A state as JSON has it: by layer and name."""
        parts = state.split([prod(shape) for shape in self.shapes.values()])
        return {name: part.view(shape).tolist() for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def state_of(self, named: Any) -> Float[Tensor, " S"]:
        """The state that `named` gave, checked."""
        if not isinstance(named, dict) or set(named) != set(self.shapes):
            raise DataError(f"state must have {', '.join(self.shapes)}, as a stream's own state does.")
        parts = []
        for name, shape in self.shapes.items():
            values = named[name]
            for size in shape[:-1]:
                if not isinstance(values, list) or len(values) != size or not all(isinstance(v, list) for v in values):
                    raise DataError(f"state {name!r} must be {list(shape)} numbers.")
                values = [value for row in values for value in row]
            numbers = finite(values, f"state {name!r}")
            if len(numbers) != prod(shape):
                raise DataError(f"state {name!r} must be {list(shape)} numbers; got {len(numbers)}.")
            if name in self._tokens and not all(number in range(self._tokens[name] + 1) for number in numbers):
                raise DataError(f"state {name!r} must be tokens, whole numbers from 0 to {self._tokens[name]}.")
            parts.append(torch.tensor(numbers, dtype=torch.float64))
        state = torch.cat(parts).to(self.first)
        if not bool(state.isfinite().all()):
            raise DataError(f"state must be finite in {str(state.dtype).removeprefix('torch.')}.")
        return state

    def _flat(self, state: State) -> Float[Tensor, "B S"]:
        return torch.cat([each.flatten(1) for layer in state for each in layer[0]], dim=1)

    def _nested(self, flat: Float[Tensor, "B S"]) -> State:
        parts = flat.split([prod(shape) for shape in self.shapes.values()], dim=1)
        each = (part.reshape(len(flat), *shape) for part, shape in zip(parts, self.shapes.values(), strict=True))
        cells = tuple((tuple(next(each) for _ in cell.states),) for cell in self.model.recurrent.cells)
        return (*cells, *(((part,),) for part in each))


class Stream:
    """One stream of a trained run: `run.stream()` makes it. It gives the very numbers that a session of `recurra serve` gives.

    - `steps`: how many inputs it has read. `state`: its state by layer and name; set it to go on from there.
    """

    def __init__(self, streamer: Streamer):
        self._streamer, self._state, self.steps = streamer, streamer.first, 0

    def step(self, inputs: Any, *, top: int = 5, each: bool = False) -> Any:
        """What follows after some inputs; with `each`, a list of what follows after each of them."""
        read = self._streamer.streaming.encode(inputs)
        (predicted,), (self._state,) = self._streamer.run([self._state], [read])
        self.steps += len(read)
        answers = self._streamer.streaming.answer(predicted if each else predicted[-1:], top)
        return answers if each else answers[0]

    @property
    def state(self) -> dict[str, Any]:
        """The state by layer and name."""
        return self._streamer.named(self._state)

    @state.setter
    def state(self, named: dict[str, Any]) -> None:
        self._state = self._streamer.state_of(named)


def _groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Streams that are run in one call: of about the same length, so that little is padded."""
    waiting: list[int] = []
    for k in sorted(range(len(lengths)), key=lengths.__getitem__):
        shortest = lengths[waiting[0]] if waiting else lengths[k]
        if waiting and (
            lengths[k] > 2 * shortest or lengths[k] * (len(waiting) + 1) > TOGETHER or shortest == 1 < lengths[k]
        ):
            yield waiting
            waiting = []
        waiting.append(k)
    if waiting:
        yield waiting


# -- what tasks share --------------------------------------------------------------------------------------------------


def finite(values: Any, what: str) -> list[float]:
    """Numbers, none of them NaN or ±inf."""
    if not isinstance(values, list) or not values:
        raise DataError(f"{what}: a list of numbers is asked for.")
    for value in values:
        if type(value) not in (int, float) or abs(value) > 1e300 or not isfinite(value):
            raise DataError(f"{what}: {str(value)[:40]!r} is not a finite number.")
    return [float(value) for value in values]


def tokens(given: Any, size: int, encode: Callable[[str], Tensor], what: str) -> Tensor:
    """A text, or a list of tokens by number."""
    if isinstance(given, str):
        read = encode(given)
    elif isinstance(given, list) and all(type(token) is int and 0 <= token < size for token in given):
        read = torch.tensor(given, dtype=torch.int64)
    else:
        raise DataError(f"inputs must be {what}.")
    if not len(read):
        raise DataError(f"inputs are empty: give at least one token ({what}).")
    return read


def most_probable(logits: Float[Tensor, "N V"], names: Sequence[str], top: int, called: str) -> list[Answer]:
    """The most probable names after each step, best first."""
    chances, places = logits.double().softmax(-1).topk(min(top, len(names)))
    return [
        {called: [names[k] for k in row], "probabilities": values}
        for row, values in zip(places.tolist(), chances.tolist(), strict=True)
    ]


def read_steps(given: Any, columns: int, what: str) -> Float[Tensor, "T C"]:
    """Steps of numbers, NaN where one is missing; of a single column a plain list will do."""
    if not isinstance(given, list) or not given:
        raise DataError(f"inputs must be {what}.")
    rows = [[step] if columns == 1 and not isinstance(step, list) else step for step in given]
    if any(not isinstance(row, list) or len(row) != columns for row in rows):
        raise DataError(f"inputs must be {what}.")
    known = [value for row in rows for value in row if value is not None]
    if known:
        finite(known, "inputs")
    plain = [[float("nan") if value is None else float(value) for value in row] for row in rows]
    return torch.tensor(plain, dtype=torch.float64)


def marginals(head: Head, predicted: Float[Tensor, " C"]) -> list[float]:
    """The probability of a 1 in each channel, of a head that has one for each alone."""
    if not isinstance(head, Bernoulli) or isinstance(head, Chain):
        raise OptionError("model.head=chain has no probability of a channel alone. Train with model.head=bernoulli.")
    chances: list[float] = head.chances(predicted.clone()).tolist()
    return chances
