"""How near a translation comes to what it should be: equal, so many edits away, or by the pieces that they share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from recurra.errors import ShapeError


def exact_match(said: Sequence[Hashable], wanted: Sequence[Hashable]) -> float:
    """The share that is right from the first symbol to the last."""
    _check(said, wanted)
    return sum(a == b for a, b in zip(said, wanted, strict=True)) / len(wanted)


def edit_distance(said: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """The fewest symbols to insert, delete or replace that turn one sequence into the other. Levenshtein 1966.

    ```python
    edit_distance("kitten", "sitting")  # 3
    ```
    """
    number = {symbol: k for k, symbol in enumerate(dict.fromkeys((*said, *wanted)))}
    across = np.array([number[symbol] for symbol in wanted], dtype=np.int64)
    steps = np.arange(len(wanted) + 1)
    row = steps
    for symbol in said:
        best = np.concatenate([row[:1] + 1, np.minimum(row[:-1] + (across != number[symbol]), row[1:] + 1)])
        row = np.minimum.accumulate(best - steps) + steps  # then inserting, any number in a row
    return int(row[-1])


def bleu(said: Sequence[str], wanted: Sequence[str]) -> float | None:
    """BLEU of the corpus, 0 to 100 (Papineni et al. 2002), by the package sacrebleu.

    `None` where that is not installed, and where no target has the four words in a row that BLEU counts.
    """
    _check(said, wanted)
    if not any(len(text.split()) >= 4 for text in wanted):
        return None
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        return None
    return float(corpus_bleu(list(said), [list(wanted)]).score)


def _check(said: Sequence[Hashable], wanted: Sequence[Hashable]) -> None:
    if len(said) != len(wanted) or not wanted:
        raise ShapeError(
            f"as many sequences are needed on both sides, at least one; got {len(said)} and {len(wanted)}."
        )
