"""A network that predicts what comes next as a weighted automaton: few states, each with the probability of every next symbol
and one transition for each symbol.

States of the network are clustered (k-means of the last layer's outputs); a transition leads where most of a cluster's states go
with the symbol. No such automaton equals the network: the curve gives what each number of states costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from recurra.analysis.automata.extraction import counted, knee, over_steps, percent
from recurra.analysis.automata.finite import shown
from recurra.analysis.automata.reading import Reading
from recurra.errors import OptionError
from recurra.results import Result, Table
from recurra.types import Float, Int

AT_ONCE = 2**24
"""So many probabilities are held at once: those of all steps would not fit in memory where there are thousands of symbols."""
FEW_SYMBOLS = 256
"""Of no more symbols than these, each may have a state of its own."""


NAMED = 3
"""A state is named by so many of the symbols that lead to it."""


@dataclass(frozen=True, eq=False)
class Weighted(Result):
    """A weighted automaton. State 0 is the first.

    - `after`: by state and symbol the next state. `probabilities`: in each state, of every class that may come next; the symbols
      are the first classes.
    - `entered`: by state and symbol, the share of all steps with which that symbol led to that state.
    """

    symbols: tuple[str, ...]
    classes: tuple[str, ...]
    after: Int[Tensor, "A K"]
    probabilities: Float[Tensor, "A C"]
    entered: Float[Tensor, "A K"]

    @property
    def size(self) -> int:
        return len(self.after)

    def walk(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T1"]:
        """The state before the first symbol and after each; past a string's end, any."""
        states = torch.zeros(len(strings), strings.shape[1] + 1, dtype=torch.int64)
        for t, column in enumerate(strings.unbind(1)):
            states[:, t + 1] = self.after[states[:, t], column]
        return states

    def state_names(self) -> list[str]:
        """The number of each state, the symbols that lead to it most often, and the share of all steps that do."""
        names = []
        for state, entered in enumerate(self.entered):
            top = entered.topk(min(NAMED, len(self.symbols)))
            led = [
                shown(self.symbols[k]) for share, k in zip(top.values, top.indices.tolist(), strict=True) if share > 0
            ]
            names.append(f"{state}: after {', '.join(led)} ({float(entered.sum()):.0%})" if led else f"{state}: start")
        return names

    def table(self) -> Table:
        rows = []
        for name, probabilities in zip(self.state_names(), self.probabilities, strict=True):
            top = probabilities.topk(min(NAMED, len(self.classes)))
            likely = zip(top.values.tolist(), top.indices.tolist(), strict=True)
            rows.append((name, ", ".join(f"{shown(self.classes[k])} {p:.2f}" for p, k in likely)))
        return Table(("state", "likeliest next"), rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": list(self.symbols),
            "classes": list(self.classes),
            "after": self.after.tolist(),
            "chances": self.probabilities.tolist(),
            "entered": self.entered.tolist(),
        }


@dataclass(frozen=True, eq=False)
class WeightedPoint:
    """`chosen_by`: the KL divergence of the automaton from the network, in nats a step, on the strings that choose, with the
    standard error `spread`; `lost`, `agreement`: the divergence, and how often its likeliest symbol is the network's, on the
    strings that score. `nats`: its cross-entropy with what truly comes next in those, where that is known."""

    automaton: Weighted
    chosen_by: float
    spread: float
    lost: float
    agreement: float
    nats: float | None

    @property
    def states(self) -> int:
        return self.automaton.size

    def to_json(self) -> dict[str, Any]:
        names = ("states", "chosen_by", "lost", "agreement", "nats")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class WeightedExtraction(Result):
    """The curve, the point that was chosen and why, and the network's own cross-entropy, in nats a step, on strings that score:
    with what truly comes next where that is known (`is_true`), else with what it samples itself.

    `last_symbol`: beside the curve, the automaton whose state is the last symbol and nothing else; `None` where there are too
    many symbols for that.
    """

    curve: tuple[WeightedPoint, ...]
    chosen: WeightedPoint
    why: str
    nats: float
    is_true: bool
    last_symbol: WeightedPoint | None
    about: str = ""

    @property
    def machine(self) -> Weighted:
        return self.chosen.automaton

    def table(self) -> Table:
        columns = ["states", "nats lost: choosing", "scoring", "likeliest symbol alike"]
        rows = []
        for point in (*self.curve, *([] if self.last_symbol is None else [self.last_symbol])):
            name = f"last symbol: {point.states}" if point is self.last_symbol else str(point.states)
            costs = (f"{point.chosen_by:.4f}", f"{point.lost:.4f}", percent(point.agreement))
            nats = [] if point.nats is None else [f"{point.nats:.4f}"]
            rows.append((name + (" ←" if point is self.chosen else ""), *costs, *nats))
        title = "weighted: what an automaton of so many states loses to the network, a symbol"
        return Table([*columns, *(["nats on what came"] if self.is_true else [])], rows, title)

    def __str__(self) -> str:
        lines = [str(self.table()), f"chosen: {counted(self.chosen.states)}, {self.why}."]
        if self.chosen is self.curve[-1] and self.chosen.lost > 0.01 and "asked" not in self.why:
            lines.append(
                "the curve still falls where it ends: more states (--most) would lose less. "
                "For a drawing, ask for few (--states)."
            )
        on = "for what came next in the strings that score" if self.is_true else "on what it samples"
        lines.append(
            f"it loses {self.chosen.lost:.4f} nats a symbol to the network, whose own are {self.nats:.4f} {on}."
        )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "method": "weighted",
            "states": self.chosen.states,
            "why": self.why,
            "lost": self.chosen.lost,
            "agreement": self.chosen.agreement,
            "nats_of_network": self.nats,
            "last_symbol": None if self.last_symbol is None else self.last_symbol.to_json(),
            "curve": [point.to_json() for point in self.curve],
            "machine": self.machine.to_json(),
        }


def extract_weighted(
    reading: Reading,
    *,
    states: int | None = None,
    most: int = 64,
    count: int = 400,
    scored: int = 1000,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> WeightedExtraction:
    """Automata of 1, 2, 4, … up to `most` states, built, chosen and scored on three sets of strings, as in `extract`.

    - `tell`: called before each part of the work, with a few words about it.
    """
    least = 1 if reading.predicts_first else 2  # a state before the first symbol, where the network predicts nothing
    sizes = [2**k for k in range(most.bit_length()) if least <= 2**k <= most]
    if states is not None:
        if states < least:
            raise OptionError(f"--states {states}: this automaton has a state before the first symbol, and one after.")
        sizes = sorted({*(n for n in sizes if n < states), states})
    tell(f"{count} strings to build on, {count} to choose on, {scored} to score on")
    build, choose = reading.draw(count, 3 * seed), reading.draw(count, 3 * seed + 1)
    score = reading.draw_test(scored, 3 * seed + 2)
    visited, inside = reading.visit(build), reading.inside(build)
    clusters: dict[int, Tensor] = {}
    for n in sizes:
        tell(f"states: {n}")
        cluster = _clusters(reading, inside, visited, n, seed)
        clusters.setdefault(int(cluster.max()) + 1, cluster)  # smaller than asked if no more points lie apart
    every = [clusters[n] for n in sorted(clusters)]
    if len(reading.symbols) <= FEW_SYMBOLS:
        every.append(torch.unique(pad(build + 1, (1, 0)), return_inverse=True)[1])
    tell("their probabilities")
    made = [
        Weighted(reading.symbols, reading.classes, after, probabilities, entered)
        for probabilities, (after, entered) in zip(
            _probabilities(reading, build, visited, every),
            (_ways(build, each, len(reading.symbols)) for each in every),
            strict=True,
        )
    ]
    tell("choosing and scoring")
    (_, *chosen_by), (network, *scored_by) = (_evaluate(reading, made, strings) for strings in (choose, score))
    points = [
        WeightedPoint(automaton, *each.lost, other.lost[0], other.agreement, other.nats)
        for automaton, each, other in zip(made, chosen_by, scored_by, strict=True)
    ]
    curve = points[: len(clusters)]
    shares = {point.states: (-point.chosen_by, point.spread) for point in curve}
    size, why = (curve[-1].states, f"at most {states}, as you asked") if states is not None else knee(shares)
    nats = network.entropy if network.nats is None else network.nats
    chosen = next(point for point in curve if point.states == size)
    last_symbol = points[-1] if len(points) > len(curve) else None
    return WeightedExtraction(tuple(curve), chosen, why, nats, network.nats is not None, last_symbol)


@dataclass(frozen=True)
class _Scores:
    lost: tuple[float, float]
    agreement: float
    nats: float | None
    entropy: float


@torch.no_grad()
def _evaluate(reading: Reading, made: Sequence[Weighted], strings: Int[Tensor, "N T"]) -> list[_Scores]:
    """The network itself and then each automaton: what it loses to the network, how often it agrees, and its nats."""
    inside, true = reading.inside(strings), reading.true(strings)
    sums = torch.zeros(1 + len(made), 4, len(strings), dtype=torch.float64)
    for rows in _parts(reading, strings):
        counts, wanted = inside[rows], None if true is None else true[rows]
        logs = _logs(reading, reading.visit(strings[rows]))
        probabilities, likeliest = logs.exp(), logs.argmax(-1)
        entropy = -(probabilities * logs).sum(-1)
        for total, automaton in zip(sums, (None, *made), strict=True):
            if automaton is None:
                cross, first = entropy, likeliest
                target = logs if wanted is None else logs.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
            else:
                own, walked = automaton.probabilities.log(), automaton.walk(strings[rows])
                cross = -(probabilities @ own.T).gather(-1, walked[..., None])[..., 0]
                first = own.argmax(1)[walked]
                target = own if wanted is None else own[walked, wanted.clamp(min=0)]
            lost = (cross - entropy).clamp(min=0)  # less than nothing is lost by rounding alone
            total[0, rows] = (lost * counts).sum(1).double()
            total[1, rows] = ((first == likeliest) & counts).sum(1).double()
            total[2, rows] = (cross * counts).sum(1).double()
            if wanted is not None:
                total[3, rows] = -(target * (wanted >= 0)).sum(1).double()
    steps = inside.sum(1).double()
    known = None if true is None else (true >= 0).sum(1).double()
    return [
        _Scores(
            over_steps(lost, steps),
            over_steps(alike, steps)[0],
            None if known is None else over_steps(surprise, known)[0],
            over_steps(cross, steps)[0],
        )
        for lost, alike, cross, surprise in sums
    ]


def _parts(reading: Reading, strings: Int[Tensor, "N T"]) -> list[slice]:
    """Rows of strings, so many at a time that memory holds the probabilities of all their steps."""
    few = max(1, AT_ONCE // (len(reading.classes) * (strings.shape[1] + 1)))
    return [slice(first, first + few) for first in range(0, len(strings), few)]


def _logs(reading: Reading, visited: Float[Tensor, "N T1 S"]) -> Float[Tensor, "N T1 C"]:
    """log P of every class in each state."""
    logs = reading.scores(visited.flatten(0, 1)).log_softmax(-1)
    return logs.view(*visited.shape[:2], -1)


def _clusters(
    reading: Reading, inside: Tensor, visited: Float[Tensor, "N T1 S"], size: int, seed: int
) -> Int[Tensor, "N T1"]:
    """States of the network as at most `size` states, the first of every string as 0, without those that nothing visits."""
    first = 0 if reading.predicts_first else 1
    cluster = torch.zeros(inside.shape, dtype=torch.int64)
    cluster[inside] = first + k_means(reading.outputs(visited[inside]), size - first, seed)
    visits = torch.bincount(cluster[inside], minlength=size)
    visits[cluster[0, 0]] = len(inside) * inside.shape[1] + 1  # it comes first; then those that are visited most
    order = visits.argsort(descending=True, stable=True)
    return order.argsort()[cluster]


@torch.no_grad()
def _probabilities(
    reading: Reading, strings: Int[Tensor, "N T"], visited: Float[Tensor, "N T1 S"], clusters: Sequence[Tensor]
) -> list[Float[Tensor, "A C"]]:
    """For each clustering, the mean of the network's predicted probabilities in each cluster."""
    inside, K = reading.inside(strings), len(reading.symbols)
    sums = [torch.zeros(int(each.max()) + 1, len(reading.classes), dtype=visited.dtype) for each in clusters]
    for rows in _parts(reading, strings):
        here = inside[rows]
        predicted = reading.scores(visited[rows][here]).softmax(-1)
        for total, cluster in zip(sums, clusters, strict=True):
            total.index_add_(0, cluster[rows][here], predicted)
    if not reading.predicts_first:  # where the network predicts nothing, count in the strings
        for total in sums:
            total[0, :K] = torch.bincount(strings[:, 0], minlength=K).to(total)
    return [
        (total + 1e-6) / (total + 1e-6).sum(1, keepdim=True) for total in sums
    ]  # a probability of 0 could not be scored


def _ways(
    strings: Int[Tensor, "N T"], cluster: Int[Tensor, "N T1"], K: int
) -> tuple[Int[Tensor, "A K"], Float[Tensor, "A K"]]:
    """Where each of K symbols leads most often from each cluster, and the share of steps with which each leads to it."""
    size, read = int(cluster.max()) + 1, strings >= 0
    places, counts = torch.unique(
        ((cluster[:, :-1] * K + strings) * size + cluster[:, 1:])[read], return_counts=True
    )  # of all transitions, those that were taken, and how often
    begin, to = places // size, places % size
    most = torch.zeros(size * K, dtype=torch.int64)
    most.scatter_reduce_(0, begin, counts * size + size - 1 - to, "amax")  # ordered by count, then by the next state
    entered = torch.zeros(size * K, dtype=torch.float64).index_add_(0, to * K + begin % K, counts.double())
    entered = entered.view(size, K) / max(1, int(read.sum()))
    anywhere = entered.argmax(0).expand(size, K)  # where a symbol leads most often, for where it was not seen
    return torch.where(most > 0, size - 1 - most % size, anywhere.flatten()).view(size, K), entered


def k_means(points: Float[Tensor, "N D"], size: int, seed: int = 0, rounds: int = 30) -> Int[Tensor, " N"]:
    """The cluster of each point (Lloyd 1982), from centres that are drawn far apart (Arthur & Vassilvitskii 2007)."""
    random = torch.Generator().manual_seed(seed)
    points = points - points.mean(0)  # or squares of large numbers would leave nothing of their differences
    squares = points.square().sum(1)

    def distances(centres: Float[Tensor, "K D"]) -> Float[Tensor, "N K"]:
        return (squares[:, None] - 2 * points @ centres.T + centres.square().sum(1)).clamp(min=0)

    centres = points[torch.randint(len(points), (1,), generator=random)]
    far = distances(centres)[:, 0]
    for _ in range(size - 1):
        centres = torch.cat([centres, points[torch.multinomial(far + 1e-12, 1, generator=random)]])
        far = torch.minimum(far, distances(centres[-1:])[:, 0])
    nearest = distances(centres).argmin(1)
    for _ in range(rounds):
        owned = torch.nn.functional.one_hot(nearest, size).to(points)
        counts = owned.sum(0)[:, None]
        centres = torch.where(counts > 0, owned.T @ points / counts.clamp(min=1), centres)
        before, nearest = nearest, distances(centres).argmin(1)
        if torch.equal(before, nearest):
            break
    return nearest
