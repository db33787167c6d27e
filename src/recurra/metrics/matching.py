"""How near a translation comes to what it should be: equal, so many edits away, or by the chunks that they share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from recurra.errors import ShapeError


def exact_match(predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> float:
    """The share that is right from the first token to the last.

    ```python
    rc.metrics.exact_match(["ab", "cd"], ["ab", "ce"])              # 0.5
    ```
    """
    _check(predicted, wanted)
    return sum(a == b for a, b in zip(predicted, wanted, strict=True)) / len(wanted)


def edit_distance(predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """The fewest tokens to insert, delete or replace that turn one sequence into the other. Levenshtein 1966.

    ```python
    rc.metrics.edit_distance("kitten", "sitting")  # 3
    ```
    """
    number = {token: k for k, token in enumerate(dict.fromkeys((*predicted, *wanted)))}
    across = np.array([number[token] for token in wanted], dtype=np.int64)
    steps = np.arange(len(wanted) + 1)
    row = steps
    for token in predicted:
        best = np.concatenate([row[:1] + 1, np.minimum(row[:-1] + (across != number[token]), row[1:] + 1)])
        row = np.minimum.accumulate(best - steps) + steps  # then inserting, any number in a row
    return int(row[-1])


def bleu(predicted: Sequence[str], wanted: Sequence[str]) -> float | None:
    """BLEU of the corpus, 0 to 100 (Papineni et al. 2002), by the package sacrebleu.

    `None` where that is not installed, and where no target has the four words in a row that BLEU counts.

    ```python
    rc.metrics.bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    ```
    """
    _check(predicted, wanted)
    if not any(len(text.split()) >= 4 for text in wanted):
        return None
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        return None
    return float(corpus_bleu(list(predicted), [list(wanted)]).score)


def _check(predicted: Sequence[Hashable], wanted: Sequence[Hashable]) -> None:
    if len(predicted) != len(wanted) or not wanted:
        raise ShapeError(
            f"as many sequences are needed on both sides, at least one; got {len(predicted)} and {len(wanted)}."
        )
