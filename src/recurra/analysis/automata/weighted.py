"""A language model as a weighted automaton: few states, each with the chance of every next symbol, and one way for each symbol.

States of the network are put together by where they lie (k-means of the last layer's outputs); where most of a cluster's states
go with a symbol is where the automaton goes. No such automaton is the network: the curve says what each number of states
costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.extraction import knee
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.reading import Reading
from recurra.types import Float, Int

TOLD = 3
"""So many of the likeliest symbols tell a state's name."""


@dataclass(frozen=True, eq=False)
class Weighted:
    """`after`: by state and symbol the next state. `chances`: in each state, of every class that may come next."""

    symbols: tuple[str, ...]
    classes: tuple[str, ...]
    after: Int[Tensor, "A K"]
    chances: Float[Tensor, "A C"]

    @property
    def size(self) -> int:
        return len(self.after)

    def walk(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"]:
        """The state before the first symbol and after each."""
        states = torch.zeros(len(strings), strings.shape[1] + 1, dtype=torch.int64)
        for t, column in enumerate(strings.unbind(1)):
            states[:, t + 1] = self.after[states[:, t], column]
        return states

    def machine(self) -> Moore:
        """With the likeliest next symbols as what a state says, to be drawn."""
        top = self.chances.topk(min(TOLD, self.chances.shape[1]))
        said = [
            " ".join(f"{self.classes[k]!r} {share:.2f}" for share, k in zip(shares, places, strict=True))
            for shares, places in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]
        return Moore(self.symbols, tuple(tuple(row) for row in self.after.tolist()), tuple(said))

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": list(self.symbols),
            "classes": list(self.classes),
            "after": self.after.tolist(),
            "chances": self.chances.tolist(),
        }


@dataclass(frozen=True, eq=False)
class WeightedPoint:
    """`chosen_by`: nats a step that the automaton loses to the network (KL divergence) on the strings that choose, with the
    standard error `spread`; `lost`, `agreement`: that, and how often its likeliest symbol is the network's, on those that
    score."""

    automaton: Weighted
    chosen_by: float
    spread: float
    lost: float
    agreement: float

    @property
    def states(self) -> int:
        return self.automaton.size


@dataclass(frozen=True, eq=False)
class WeightedExtraction:
    """The curve, the point that was chosen and why, and the network's own nats a step on the strings that score."""

    curve: tuple[WeightedPoint, ...]
    chosen: WeightedPoint
    why: str
    nats: float

    @property
    def machine(self) -> Moore:
        return self.chosen.automaton.machine()

    def to_json(self) -> dict[str, Any]:
        return {
            "method": "weighted",
            "states": self.chosen.states,
            "why": self.why,
            "lost": self.chosen.lost,
            "agreement": self.chosen.agreement,
            "nats_of_network": self.nats,
            "curve": [
                {"states": p.states, "chosen_by": p.chosen_by, "lost": p.lost, "agreement": p.agreement}
                for p in self.curve
            ],
            "machine": self.chosen.automaton.to_json(),
        }


def extract_weighted(
    reading: Reading, *, states: int | None = None, most: int = 64, count: int = 400, scored: int = 1000, seed: int = 0
) -> WeightedExtraction:
    """Automata of 1, 2, 4, … up to `most` states, built, chosen and scored on three sets of strings, as in `extract`."""
    build, choose = reading.draw(count, 3 * seed), reading.draw(count, 3 * seed + 1)
    score = reading.draw_test(scored, 3 * seed + 2)
    visited, logs = reading.visit(build), _logs(reading, choose)
    sizes = [2**k for k in range(most.bit_length()) if 2**k <= most]
    if states is not None:
        sizes = sorted({*(n for n in sizes if n < states), states})
    made = [_build(reading, build, visited, n, seed) for n in sizes]
    losses = [_lost(each, choose, logs) for each in made]
    logs = _logs(reading, score)
    curve = []
    for automaton, (loss, spread) in zip(made, losses, strict=True):
        likeliest = automaton.chances.argmax(1)[automaton.walk(score)]
        same = float((likeliest == logs.argmax(-1)).double().mean())
        curve.append(WeightedPoint(automaton, loss, spread, _lost(automaton, score, logs)[0], same))
    shares = {point.states: (-point.chosen_by, point.spread) for point in curve}
    size, why = (states, "as was asked") if states is not None else knee(shares)
    chosen = next(point for point in curve if point.states == size)
    return WeightedExtraction(tuple(curve), chosen, why, float(-(logs.exp() * logs).sum(-1).mean()))


def _logs(reading: Reading, strings: Int[Tensor, "N T"]) -> Float[Tensor, "N T1 C"]:
    """log P of every class before the first symbol and after each."""
    logs = reading.scores(reading.visit(strings).flatten(0, 1)).log_softmax(-1)
    return logs.view(len(strings), strings.shape[1] + 1, -1)


def _lost(automaton: Weighted, strings: Int[Tensor, "N T"], logs: Float[Tensor, "N T1 C"]) -> tuple[float, float]:
    """The mean of Σ P log(P / Q) over steps, and its standard error over strings."""
    own = automaton.chances.log()[automaton.walk(strings)]
    rows = (logs.exp() * (logs - own)).sum(-1).mean(1).double()
    return float(rows.mean()), float(rows.std(correction=0)) / len(rows) ** 0.5


def _build(
    reading: Reading, strings: Int[Tensor, "N T"], visited: Float[Tensor, "N T1 S"], size: int, seed: int
) -> Weighted:
    points = visited.flatten(0, 1)
    cluster = k_means(reading.F.outputs(points), size, seed).view(visited.shape[:2])
    start, K = int(cluster[0, 0]), len(reading.symbols)
    cluster = torch.where(cluster == start, 0, torch.where(cluster == 0, start, cluster))  # the first one first
    size = int(cluster.max()) + 1
    places = (cluster[:, :-1] * K + strings) * size + cluster[:, 1:]
    counts = torch.bincount(places.flatten(), minlength=size * K * size).view(size, K, size)
    anywhere = counts.sum(0).argmax(-1).expand(size, K)  # where a symbol leads most often, for where it was not seen
    after = torch.where(counts.sum(-1) > 0, counts.argmax(-1), anywhere)
    chances = torch.zeros(size, len(reading.classes), dtype=points.dtype)
    chances.index_add_(0, cluster.flatten(), reading.scores(points).softmax(-1))
    chances = chances + 1e-6  # a cluster may be empty, and a chance of 0 could not be scored
    return Weighted(reading.symbols, reading.classes, after, chances / chances.sum(1, keepdim=True))


def k_means(points: Float[Tensor, "N D"], size: int, seed: int = 0, rounds: int = 30) -> Int[Tensor, " N"]:
    """The cluster of each point (Lloyd 1982), from centres that are drawn far apart (Arthur & Vassilvitskii 2007)."""
    random = torch.Generator().manual_seed(seed)
    centres = points[torch.randint(len(points), (1,), generator=random)]
    for _ in range(size - 1):
        far = torch.cdist(points, centres).amin(1).square() + 1e-12
        centres = torch.cat([centres, points[torch.multinomial(far, 1, generator=random)]])
    for _ in range(rounds):
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        counts = torch.bincount(nearest, minlength=size)[:, None]
        centres = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
    return torch.cdist(points, centres).argmin(1)
