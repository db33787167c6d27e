"""The automaton of a network of one's own: recurrent layers with a readout, or any step function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.extraction import Extraction, extract
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.types import Float, Int

Step = Callable[[Tensor, Tensor], Tensor]
"""States `[N, S]` and the numbers of symbols `[N]` to the next states."""


class StepReading(Reading):
    """A step function as something that reads symbols."""

    def __init__(self, next_state: Step, start: Float[Tensor, " S"], *others: Any, **options: Any):
        self.next_state = next_state
        super().__init__(None, start[None], *others, **options)
        self.start = start

    def step(self, s: Float[Tensor, "N S"], symbol: Int[Tensor, " N"]) -> Float[Tensor, "N S"]:
        with torch.no_grad():
            return self.next_state(s, symbol)

    def outputs(self, s: Float[Tensor, "N S"]) -> Float[Tensor, "N S"]:
        return s


def extract_automaton(
    network: Recurrent | Step,
    alphabet: Sequence[str],
    classes: Sequence[str],
    readout: Callable[[Tensor], Tensor],
    *,
    vectors: Float[Tensor, "K D"] | None = None,
    start: Float[Tensor, " S"] | None = None,
    strings: Callable[[int, int], Int[Tensor, "N T"]] | None = None,
    length: int = 20,
    truth: Moore | None = None,
    method: str = "quotient",
    **options: Any,
) -> Extraction:
    """The finite automaton in a network that reads symbols and predicts a class after each.

    - `network`: recurrent layers, or a function from states `[N, S]` and numbers of symbols `[N]` to the next states.
    - `alphabet`, `classes`: names. `readout`: outputs of the layers (or states, of a function) to the score of each class.
    - `vectors`: what the layers read for each symbol; one-hot otherwise. `start`: the first state, of a function.
    - `strings`: a count and a seed to strings `[N, T]` of numbers; otherwise `length` symbols each, all as probable.
    - `truth`: the machine that it should be, to compare with. `method`: `quotient`, or `learning` (needs AALpy).
    - `options`: as for `extract`: `states`, `most`, `count`, `scored`, `seed`.

    ```python
    def parity(state, bit):                                     # an exact network: the state is the parity
        return (state + bit[:, None]) % 2

    found = rc.extract_automaton(parity, "01", ("even", "odd"), lambda s: torch.cat([1 - s, s], 1), start=torch.zeros(1))
    found.machine.size                                          # 2
    ```
    """

    def draw(count: int, seed: int) -> Int[Tensor, "N T"]:
        return torch.randint(len(alphabet), (count, length), generator=torch.Generator().manual_seed(seed))

    rest: tuple[Any, ...] = (readout, tuple(alphabet), tuple(classes), strings or draw)
    if isinstance(network, Recurrent):
        x = torch.eye(len(alphabet), network.input_size) if vectors is None else vectors
        if vectors is None and network.input_size != len(alphabet):
            raise OptionError(
                f"the layers read {network.input_size} numbers, and there are {len(alphabet)} symbols: pass vectors of each."
            )
        reading = Reading(network, x.to(network.stack[0][0].W.dtype), *rest, truth=truth)
    else:
        if start is None:
            raise OptionError("a step function needs the state that it starts from: pass start=TENSOR.")
        reading = StepReading(network, start, *rest, truth=truth)
    return extract(reading, method, **options)
