"""Synthetic parsed reviews: what is hard about labelled sentences, with an answer that is known.

Words are drawn by Zipf's law, so that most of a vocabulary is rare; few of them are good or bad. Parses are binary. Negation,
degree and contrast act on what they stand before, every node has a label, and labels are noisy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from recurra.data.trees import Tree
from recurra.errors import OptionError

SHORTEST, LONGEST = 5, 50
"""Words of a review; 19 on average."""

WORDS, NOISE = 40_000, 0.3
"""How many there are to draw from, and the deviation of the noise on values, unless it is said."""

PLAIN = 40
"""As many of the most frequent words mean nothing."""

ACTS = {"not": -0.7, "never": -0.7, "hardly": -0.4, "very": 1.6, "so": 1.5, "too": 1.4, "rather": 0.6, "almost": 0.5}
"""Words that multiply the value of the phrase they stand before."""

CONTRAST, KEPT = ("but", "yet"), 0.3
"""Words after which a phrase outweighs the one before, of whose value this share is kept."""


@dataclass(frozen=True)
class Lexicon:
    """`words`, the most frequent first; `weights`: their frequencies, summed up; `values`: from bad to good, most of them 0."""

    words: list[str]
    weights: list[float]
    values: dict[str, float]


@lru_cache(maxsize=4)
def make_lexicon(size: int) -> Lexicon:
    """The same for every seed: what a word means does not change from one sample of reviews to the next."""
    source = random.Random(f"reviews/{size}")
    words = [f"w{rank}" for rank in range(size)]
    values = {
        word: source.choice((-1, 1)) * source.uniform(0.4, 1.6) if rank >= PLAIN and source.random() < 0.25 else 0.0
        for rank, word in enumerate(words)
    }
    return Lexicon(words, list(accumulate((rank + 3.7) ** -1.1 for rank in range(size))), values)


def reviews(
    count: int, *, seed: int = 0, vocabulary: int = WORDS, classes: int = 5, noise: float = NOISE
) -> list[Tree]:
    """Parsed reviews with a label at every node, 0 (bad) to `classes` − 1 (good). The same seed gives the same reviews.

    - `vocabulary`: how many words there are to draw from; what they mean is the same for all seeds.
    - `noise`: the deviation of the noise on a node's value before it becomes a label. A class is 0.7 wide.

    ```python
    rc.data.write_expression(rc.data.reviews(1)[0])
    ```
    """
    if count < 1 or vocabulary < 2 * PLAIN or classes < 2 or noise < 0:
        raise OptionError(
            f"reviews: count must be at least 1, vocabulary {2 * PLAIN}, classes 2 and noise 0; "
            f"got {count}, {vocabulary}, {classes} and {noise}."
        )
    lexicon, source = make_lexicon(vocabulary), random.Random(f"reviews/{seed}")
    return [review(source, lexicon, classes, noise) for _ in range(count)]


def review(source: random.Random, lexicon: Lexicon | None = None, classes: int = 5, noise: float = NOISE) -> Tree:
    """One of `reviews`."""
    lexicon = lexicon or make_lexicon(WORDS)
    length = min(LONGEST, max(SHORTEST, round(source.gammavariate(4, 4.8))))
    mood = source.gauss(0, 1)
    tokens: list[str | None] = []
    parents: list[int] = []
    waiting: list[tuple[int, int, str | None]] = [
        (-1, length, None)
    ]  # a parent, how many words, the first one if it is given
    while waiting:
        parent, size, first = waiting.pop()
        here = len(parents)
        parents.append(parent)
        if size == 1:
            tokens.append(first or _draw(lexicon, source, mood))
            continue
        tokens.append(None)
        split = 1 if first is not None or source.random() < 0.4 else source.randint(1, size - 1)
        other = None
        if split == 1 and first is None and source.random() < 0.2:
            first = source.choice(list(ACTS))
        elif split > 2 and size - split > 2 and source.random() < 0.3:
            other = source.choice(CONTRAST)
        waiting += [(here, size - split, other), (here, split, first)]
    values = _values(lexicon, tokens, parents)
    middle = (classes - 1) / 2
    noisy = (value + source.gauss(0, noise) for value in values)
    return Tree(tokens, parents, [str(min(classes - 1, max(0, round(value / 0.7 + middle)))) for value in noisy])


def _draw(lexicon: Lexicon, source: random.Random, mood: float) -> str:
    """A word; those that speak against the mood are less likely."""
    for _ in range(3):
        word = source.choices(lexicon.words, cum_weights=lexicon.weights)[0]
        if lexicon.values[word] * mood >= 0:
            break
    return word


def _values(lexicon: Lexicon, tokens: list[str | None], parents: list[int]) -> list[float]:
    """What each node is worth, from −2 to 2."""
    values = [0.0] * len(parents)
    children: list[list[int]] = [[] for _ in parents]
    for n in range(len(parents) - 1, -1, -1):  # children come after their parents
        if n:
            children[parents[n]].insert(0, n)
        token = tokens[n]
        if token is not None:
            values[n] = lexicon.values.get(token, 0.0)
            continue
        left, right = children[n]
        begins = tokens[children[right][0]] if children[right] else None
        if tokens[left] in ACTS:
            value = ACTS[str(tokens[left])] * values[right]
        else:
            value = (KEPT if begins in CONTRAST else 1.0) * values[left] + values[right]
        values[n] = max(-2.0, min(2.0, value))
    return values
