"""Sums of two numbers, digit by digit: synthetic pairs, so that every right answer is known."""

from __future__ import annotations

import math
import random

from recurra.data.pairs import Pair
from recurra.errors import OptionError


def synthetic_sums(count: int, seed: int = 0, digits: int = 3) -> list[Pair]:
    """Sums of two numbers of at most `digits` digits; the answer is written from its last digit on, as one adds by hand.

    No two numbers come together twice, in either order, so that a part that is held out was never seen.

    ```python
    synthetic_sums(2)  # [Pair("407+58", "564"), ...]: 407 + 58 = 465
    ```
    """
    numbers = 10**digits
    most = numbers * (numbers + 1) // 2
    if not 1 <= count <= most:
        raise OptionError(
            f"addition: count must lie between 1 and {most:,}, the pairs of numbers that there are; got {count}."
        )
    draw = random.Random(seed)
    pairs = []
    for k in draw.sample(range(most), count):  # the k-th of (0, 0), (0, 1), (1, 1), (0, 2), …
        larger = (math.isqrt(8 * k + 1) - 1) // 2
        a, b = draw.sample((larger, k - larger * (larger + 1) // 2), 2)
        pairs.append(Pair(f"{a}+{b}", str(a + b)[::-1]))
    return pairs
