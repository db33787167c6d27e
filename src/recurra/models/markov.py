"""`Markov`: the next token from the k before it, by counting. The baseline that a network has to beat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recurra.errors import DataError, OptionError
from recurra.types import Float, Int

Ids = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Whole = TypeVar("Whole", np.int32, np.int64)
Data = Int[Tensor, " N"] | Sequence[Int[Tensor, " n"]]

CHUNK = 1 << 20
"""How many tokens are scored at a time."""


@dataclass(frozen=True)
class _Grams:
    """Every run of n tokens that is in the training data.

    A run is known by its place in `keys`, which are sorted: (place of its first n - 1 tokens) · (V + 1) + its last token.
    Before the first token of a sequence stands V, as often as it takes.
    """

    keys: Ids
    counts: Ids  # how often its last token is a target
    tails: Places  # the place of its last n - 1 tokens among the shorter runs


@dataclass(frozen=True)
class Level:
    """The part of the probability that comes from runs of n tokens."""

    keys: Ids
    share: npt.NDArray[np.float64]  # of a run, given its first n - 1 tokens
    rest: npt.NDArray[np.float64]  # of the first n - 1 tokens: what is left to the shorter runs


class Walk:
    """A Markov model along one sequence: the probability of the token after those that were read, one after another.

    Of the last n tokens for n = 0, 1, … the place among the runs of n tokens is kept, up to the longest that was ever counted: a
    longer run has all shorter ones in it. It holds once as many tokens were read as the model looks back at.
    """

    def __init__(self, levels: Sequence[Level], vocabulary_size: int):
        self._levels, self._V = levels, vocabulary_size
        self._places = [0]

    def read(self, *tokens: int) -> None:
        for token in tokens:
            places = [0]
            for level, before in zip(self._levels[:-1], self._places, strict=False):
                key = before * (self._V + 1) + token
                place = int(level.keys.searchsorted(key))
                if place == len(level.keys) or level.keys[place] != key:
                    break
                places.append(place)
            self._places = places

    def probabilities(self) -> Float[Tensor, " V"]:
        V = self._V
        p = np.full(V + 1, 1 / V)
        for level, place in zip(self._levels, self._places, strict=False):
            first = place * (V + 1)
            low, high = level.keys.searchsorted((first, first + V + 1))
            p *= level.rest[place]
            p[level.keys[low:high] - first] += level.share[low:high]
        return torch.from_numpy(p[:V])


class Markov:
    """The probability of a token given the `order` tokens before it.

    Interpolated Kneser–Ney smoothing, with three discounts for each length (Chen & Goodman 1999):

        P(w | h) = (c(hw) − D(c(hw))) / c(h) + γ(h) P(w | h without its first token)

    where c counts occurrences for the longest runs and the different tokens that come before for the shorter ones,
    D depends on whether c is 1, 2 or more, and γ(h) is what the discounts took. The shortest falls back on 1/V.

    The first token of a text or sequence is given and never predicted, as for a network that reads it and predicts the next.

    ```python
    model = rc.models.Markov.fit(torch.tensor([0, 1, 0, 1, 1]), order=1, vocabulary_size=2)
    model.probabilities([0])                  # sums to 1
    model.score(torch.tensor([1, 0, 1]))      # nats per token
    ```
    """

    def __init__(self, levels: Sequence[Level], vocabulary_size: int):
        self.levels = levels
        self.order, self.vocabulary_size = len(levels) - 1, vocabulary_size

    @classmethod
    def fit(cls, ids: Data, order: int, vocabulary_size: int) -> Markov:
        """Count one text, or a list of sequences."""
        return cls._from_grams(_count(ids, order, vocabulary_size), order, vocabulary_size)

    @classmethod
    def _from_grams(cls, grams: Sequence[_Grams], order: int, vocabulary_size: int) -> Markov:
        levels = []
        for n in range(order + 1):
            counts = grams[n].counts
            if n < order:
                longer = grams[n + 1]
                counts = np.bincount(longer.tails[longer.counts > 0], minlength=len(counts))
            contexts = len(grams[n - 1].keys) if n else 1
            levels.append(_discount(grams[n].keys, counts, contexts, vocabulary_size + 1))
        return cls(levels, vocabulary_size)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Of runs of 1 to order + 1 tokens: how many there are, and how many contexts they have."""
        return [(len(level.keys), len(level.rest)) for level in self.levels]

    @property
    def contexts(self) -> int:
        """How many different contexts of `order` tokens the training data had."""
        base = self.vocabulary_size + 1
        return len(np.unique(self.levels[-1].keys // base))

    def score(self, ids: Data) -> float:
        """Mean nats per token, each given those before it; the first of each text or sequence is not counted."""
        total, targets = 0.0, 0
        for logs in self._log_probabilities(ids):
            total, targets = total - float(logs.sum()), targets + len(logs)
        return total / targets

    def log_probabilities(self, ids: Data) -> Float[Tensor, " M"]:
        """The logarithm of the probability of every token but the first of each text or sequence, in order."""
        return torch.from_numpy(np.concatenate(list(self._log_probabilities(ids))))

    def probabilities(self, context: Int[Tensor, " n"] | Sequence[int]) -> Float[Tensor, " V"]:
        """The probability of each token after `context`: all that came before in its sequence, or the end of it."""
        V = self.vocabulary_size
        given = torch.as_tensor(context, dtype=torch.int64)
        _check_tokens(given, V)
        walk = self.walk()
        walk.read(*[V] * self.order, *given.tolist())
        return walk.probabilities()

    def walk(self) -> Walk:
        """Along one sequence, token by token."""
        return Walk(self.levels, self.vocabulary_size)

    def _log_probabilities(self, ids: Data) -> Iterable[npt.NDArray[np.float64]]:
        V = self.vocabulary_size
        line, targets = _line(_sequences(ids), self.order, V)
        for start in range(0, len(line), CHUNK):
            early = max(0, start - self.order - 1)  # what the first tokens of the chunk are given
            tokens, wanted = line[early : start + CHUNK], targets[early : start + CHUNK]
            p = np.full(len(tokens), 1 / V)
            context = np.zeros(len(tokens), dtype=np.int64)
            for level in self.levels:
                place = np.where(context >= 0, _find(level.keys, context * (V + 1) + tokens), -1)
                p = np.where(context >= 0, level.rest[context] * p, p) + np.where(place >= 0, level.share[place], 0)
                context = _one_later(place)
            yield np.log(p[start - early :][wanted[start - early :]])


def best_markov(
    train_ids: Data, valid_ids: Data, vocabulary_size: int, orders: Iterable[int] = (1, 2, 3, 4, 5, 6)
) -> Markov:
    """The order that does best on validation data. What is common to all orders is counted once.

    ```python
    ids = torch.tensor([0, 1, 2] * 50)
    rc.models.best_markov(ids[:100], ids[100:], 3).order
    ```
    """
    tried = sorted(set(orders))
    if not tried:
        raise OptionError("best_markov needs at least one order to try; got none.")
    grams = _count(train_ids, tried[-1], vocabulary_size)
    models = (Markov._from_grams(grams, order, vocabulary_size) for order in tried)
    return min(models, key=lambda model: model.score(valid_ids))


def _count(ids: Data, order: int, vocabulary_size: int) -> list[_Grams]:
    """Runs of 1 to order + 1 tokens."""
    if order < 0:
        raise OptionError(f"The order of a Markov model is 0 or more; got {order}.")
    line, targets = _line(_sequences(ids), order, vocabulary_size)
    # 32 bits: the arrays that are as long as the text are what takes room
    context = tails = np.zeros(len(line), dtype=np.int32)
    grams = []
    for _ in range(order + 1):
        keys, examples, places = _number(context * np.int64(vocabulary_size + 1) + line)
        counts = np.bincount(places[targets], minlength=len(keys))
        grams.append(_Grams(keys, counts, tails[examples]))
        context, tails = _one_later(places), places
    return grams


def _number(values: Ids) -> tuple[Ids, Ids, Places]:
    """The different values, sorted; where each is found; and the place among them of each value. `np.unique`, in less room."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    new = np.concatenate([[True], values[1:] != values[:-1]])
    places = np.empty(len(values), dtype=np.int32)
    places[order] = np.cumsum(new, dtype=np.int32) - 1
    return values[new], order[new], places


def _discount(keys: Ids, counts: Ids, contexts: int, base: int) -> Level:
    """Take a discount from each run's count, and leave what was taken to the shorter runs."""
    discounts = _discounts(counts)
    place = keys // base
    taken = discounts[np.minimum(counts, 3)]
    total = np.bincount(place, weights=counts, minlength=contexts)
    left = np.bincount(place, weights=taken, minlength=contexts)
    seen = total > 0
    safe = np.where(seen, total, 1)
    return Level(keys, (counts - taken) / safe[place], np.where(seen, left / safe, 1))


def _discounts(counts: Ids) -> npt.NDArray[np.float64]:
    """What to take from a count of 0, 1, 2, and 3 or more: Chen & Goodman 1999, equation 26.

    Small or artificial data may lack runs that are seen just 1 to 4 times, or give discounts outside their bounds; then the
    estimate is 1/2 throughout.
    """
    n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if min(n1, n2, n3, n4):
        Y = n1 / (n1 + 2 * n2)
        D = np.array([0, 1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2, 3 - 4 * Y * n4 / n3])
        if np.all(D[1:] > 0):
            return D
    return np.array([0, 0.5, 0.5, 0.5])


def _sequences(ids: Data) -> list[Tensor]:
    return [ids] if isinstance(ids, Tensor) else list(ids)


def _line(sequences: Sequence[Tensor], order: int, vocabulary_size: int) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """All sequences in one line, `order` times the token V before each, and which tokens are to be predicted."""
    sizes = np.array([sequence.numel() for sequence in sequences])
    if sizes.min(initial=2) < 2 or not len(sizes):
        raise DataError("A Markov model needs texts of at least 2 tokens; got one that is shorter, or none at all.")
    _check_tokens(torch.cat(list(sequences)), vocabulary_size)
    before = torch.full((order,), vocabulary_size)
    line = torch.cat([part for sequence in sequences for part in (before, sequence.cpu())]).numpy()
    starts = np.cumsum(sizes + order) - sizes
    targets = line < vocabulary_size
    targets[starts] = False
    return line, targets


def _check_tokens(tokens: Tensor, vocabulary_size: int) -> None:
    if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < vocabulary_size:
        raise DataError(
            f"Tokens must be 0 to {vocabulary_size - 1} (vocabulary_size={vocabulary_size}); "
            f"found {int(tokens.min())} to {int(tokens.max())}."
        )


def _one_later(places: npt.NDArray[Whole]) -> npt.NDArray[Whole]:
    """For each token, the run that ends at the one before it. The first stands after infinitely many tokens V."""
    return np.concatenate([places[:1], places[:-1]])


def _find(keys: Ids, wanted: Ids) -> Ids:
    """Where each is among the sorted keys; -1 where it is not."""
    places = np.searchsorted(keys, wanted)
    return np.where(keys[np.minimum(places, len(keys) - 1)] == wanted, places, -1)
