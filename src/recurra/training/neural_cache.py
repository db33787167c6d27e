"""A neural cache: words that a text has used lately, where the network was in a similar state, become more probable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recurra.data.batches import Batches
from recurra.data.transfer import send
from recurra.models.combined import best_share, mixed
from recurra.models.sequence import SequenceModel
from recurra.training.evaluation import evaluating
from recurra.types import Float, Int, State

SIZES = (100, 500, 2000)
FLATNESSES = (2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass(frozen=True)
class Cache:
    """P(w) = (1 − share) P_network(w) + share Σ_i softmax_i(flatness · cos(h_t, h_i)) [w followed step i]. Grave et al. 2017.

    The sum is over the `size` steps before t; the similarity of outputs is that of their directions.
    """

    size: int
    flatness: float
    share: float

    def __str__(self) -> str:
        return f"cache of {self.size:,} (flatness {self.flatness:g}, share {self.share:.0%})"


def choose_cache(
    model: SequenceModel, batches: Batches, places: Batches, logs: Float[Tensor, " N"], sizes: Iterable[int] = SIZES
) -> Cache:
    """The cache that gives the targets of some data the highest probability; `logs` are the network's own."""
    tried = list(product(sizes, FLATNESSES))
    found = cache_logs(model, batches, places, tried)
    caches = []
    for (size, flatness), cached in zip(tried, found, strict=True):
        share = best_share(logs, _filled(cached, logs))
        caches.append((float(mixed(logs, _filled(cached, logs), share).mean()), Cache(size, flatness, share)))
    return max(caches, key=lambda pair: pair[0])[1]


def with_cache(
    model: SequenceModel, batches: Batches, places: Batches, logs: Float[Tensor, " N"], cache: Cache
) -> Float[Tensor, " N"]:
    """log P of every target by network and cache together."""
    (cached,) = cache_logs(model, batches, places, [(cache.size, cache.flatness)])
    return mixed(logs, _filled(cached, logs), cache.share)


def _filled(cached: Float[Tensor, " N"], logs: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """An empty cache says what the network says."""
    return torch.where(cached.isnan(), logs, cached)


def cache_logs(
    model: SequenceModel, batches: Batches, places: Batches, caches: list[tuple[int, float]]
) -> list[Float[Tensor, " N"]]:
    """log P of every target by caches of some sizes and flatnesses alone, in the order of the data; NaN of an empty one.

    `places` as for `log_probabilities`. Each stream of the batches has its own memory, which begins empty.
    """
    longest = max(size for size, _ in caches)
    values: list[Tensor] = []
    found: list[Tensor] = []
    state: State | None = None
    past: list[tuple[Tensor, Tensor]] = []
    device = model.output.weight.device
    with evaluating(model):
        for batch, place in zip(batches.one_pass(), places.one_pass(), strict=True):
            state = None if batch.fresh else state
            hidden, state = model.hidden(send(batch.inputs, device), state, batch.lengths)
            directions, targets = normalize(hidden.float(), dim=-1), send(batch.targets, device)
            if batch.fresh:
                past = [(directions[0, :0], targets[0, :0])] * len(targets)
            lengths = [targets.shape[1]] * len(targets) if batch.lengths is None else batch.lengths.tolist()
            for row, n in enumerate(lengths):
                if n == 0:
                    continue
                known, followed = past[row]
                keys = torch.cat([known, directions[row, :n]])
                tokens = torch.cat([followed, targets[row, :n]])
                values.append(_score(keys, tokens, n, caches).cpu())
                found.append(place.targets[row, :n] - 1)
                past[row] = keys[-longest:], tokens[-longest:]
    order = torch.cat(found).argsort()
    return list(torch.cat(values, dim=1)[:, order])


def _score(
    keys: Float[Tensor, "M H"], tokens: Int[Tensor, " M"], n: int, caches: list[tuple[int, float]]
) -> Float[Tensor, "K n"]:
    """log P of the last n tokens by each cache: the share of its weight that lies on steps which the same token followed."""
    M = len(keys)
    # at most 1, and not 0 in float32 for any flatness that is tried
    similar = keys[-n:] @ keys.T - 1
    back = torch.arange(M - n, M, device=keys.device)[:, None] - torch.arange(M, device=keys.device)
    same = (tokens[-n:, None] == tokens).to(keys)
    near = {size: ((back > 0) & (back <= size)).to(keys) for size, _ in caches}
    weights = {flatness: torch.exp(flatness * similar) for _, flatness in caches}
    scored = []
    for size, flatness in caches:
        reached = weights[flatness] * near[size]
        hits, total = (reached * same).sum(-1).double(), reached.sum(-1).double()
        scored.append(hits.log() - total.log())  # log 0 − log 0 is NaN: an empty cache
    return torch.stack(scored)
