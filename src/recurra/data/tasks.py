"""Synthetic tasks: what must be remembered, and for how long, is known exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recurra.errors import OptionError
from recurra.types import Float, Int


def adding(count: int, length: int, seed: int = 0) -> tuple[Float[Tensor, "N T 2"], Float[Tensor, " N"]]:
    """The adding problem: the sum of the two numbers that are marked. A regression, scored by mean squared error.

    Each step brings a number, uniform in [0, 1), and a mark, which is 1 at one step of the first half and at one of the
    second half, 0 elsewhere. Hochreiter & Schmidhuber 1997; in the form of Arjovsky et al. 2016.

    ```python
    x, y = rc.data.adding(8, 50)
    ```
    """
    check_sizes("adding", count=(count, 1), length=(length, 2))
    random = torch.Generator().manual_seed(seed)
    half, rows = length // 2, torch.arange(count)
    numbers = torch.rand(count, length, generator=random)
    first = torch.randint(half, (count,), generator=random)
    second = torch.randint(half, length, (count,), generator=random)
    marks = torch.zeros(count, length)
    marks[rows, first] = marks[rows, second] = 1
    return torch.stack([numbers, marks], dim=-1), numbers[rows, first] + numbers[rows, second]


def adding_baseline() -> float:
    """The mean squared error of always predicting 1: the variance of a sum of two numbers uniform in [0, 1), which is 1/6."""
    return 1 / 6


def copying(
    count: int, length: int, seed: int = 0, symbols: int = 8, span: int = 10
) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Copying memory: output again, after `length` steps, what was read. A classification of every step, T = length + 2 span.

    Inputs are `span` random symbols 0 to symbols - 1, then length - 1 blanks (the number `symbols`), one sign to start
    (`symbols + 1`) and `span` blanks. Targets are length + span blanks, then the random symbols. There are symbols + 2
    kinds of input. Hochreiter & Schmidhuber 1997; in the form of Arjovsky et al. 2016.

    ```python
    x, y = rc.data.copying(8, 50)
    ```
    """
    check_sizes("copying", count=(count, 1), length=(length, 1), symbols=(symbols, 1), span=(span, 1))
    random = torch.Generator().manual_seed(seed)
    copied = torch.randint(symbols, (count, span), generator=random)
    inputs = torch.full((count, length + 2 * span), symbols)
    targets = inputs.clone()
    inputs[:, :span] = copied
    inputs[:, length + span - 1] = symbols + 1
    targets[:, length + span :] = copied
    return inputs, targets


def copying_baseline(length: int, symbols: int = 8, span: int = 10) -> float:
    """The loss, in nats per step, of predicting blanks until the sign and then guessing: span · log(symbols) / T."""
    return span * math.log(symbols) / (length + 2 * span)


def flip_flop(
    count: int, length: int, seed: int = 0, bits: int = 3, chance: float = 0.25, delay: int = 0
) -> tuple[Float[Tensor, "N T C"], Float[Tensor, "N T C"]]:
    """Flip-flops: of each bit, the sign of the last pulse. A regression of every step, scored by mean squared error.

    Each channel brings a pulse of +1 or −1 with probability `chance`, else 0; all have one at the first step, so that the
    target is always defined. Sussillo & Barak 2013.

    - `delay`: targets come so many steps late, and are 0 before: pulses on their way must be remembered too.

    ```python
    x, y = rc.data.flip_flop(8, 50)
    ```
    """
    check_sizes("flip_flop", count=(count, 1), length=(length, 1), bits=(bits, 1), delay=(delay, 0))
    random = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (count, length, bits), generator=random) * 2.0 - 1
    here = torch.rand(count, length, bits, generator=random) < chance
    here[:, 0] = True
    last = torch.where(here, torch.arange(length)[None, :, None], 0).cummax(1).values
    late = torch.nn.functional.pad(signs.gather(1, last), (0, 0, delay, 0))[:, :length]
    return torch.where(here, signs, 0.0), late


def parity(count: int, length: int, seed: int = 0) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Running parity: at every step, whether the number of ones so far is odd. One bit must be held for ever.

    ```python
    x, y = rc.data.parity(8, 50)
    ```
    """
    check_sizes("parity", count=(count, 1), length=(length, 1))
    bits = torch.randint(2, (count, length), generator=torch.Generator().manual_seed(seed))
    return bits, bits.cumsum(1) % 2


def check_sizes(task: str, **sizes: tuple[int, int]) -> None:
    """Refuse a size, by its name, that is less than its least."""
    for name, (size, least) in sizes.items():
        if size < least:
            raise OptionError(f"{task}: {name} must be at least {least}; got {size}.")
