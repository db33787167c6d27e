"""From a network to its automaton: a curve of machines, the one that is chosen, and its fidelity.

Machines are built on one set of strings, one of them is chosen on a second set, and it is scored on a third. Where the truth is
known, it is compared with at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.automata.completion import completed, with_known_start
from recurra.analysis.automata.finite import Moore
from recurra.analysis.automata.learning import guesses
from recurra.analysis.automata.quotient import quotients
from recurra.analysis.automata.reading import Reading
from recurra.errors import OptionError, choose_from
from recurra.results import Result, Table
from recurra.types import Float, Int

METHODS: dict[str, Callable[[Reading, Tensor, int], Iterator[Moore]]] = {"quotient": quotients, "learning": guesses}
WORTH = 0.01
"""More states are not worth it for less than this share of what states can win at all."""
SHOWN = 5
"""How many counterexamples are kept."""


@dataclass(frozen=True)
class Point:
    """A machine on the curve. `chosen_by`: how often its output is the network's prediction on the strings that choose, with
    the standard error `spread`; `network`, `truth`: how often it is the prediction and the truth on the strings that score."""

    machine: Moore
    chosen_by: float
    spread: float
    network: float
    truth: float | None

    @property
    def states(self) -> int:
        return self.machine.size


def counted(count: int) -> str:
    return f"{count} state{'s' if count != 1 else ''}"


def percent(share: float) -> str:
    return f"{100 * share:.3f} %"


@dataclass(frozen=True)
class Extraction(Result):
    """The curve, by states, and which point of it was chosen.

    - `why`: how it was chosen. `accuracy`: of the network itself on the strings that score.
    - `counterexamples`: strings that score on which the chosen machine and the network differ, the shortest ones.
    - `difference`: the shortest string on which it differs from the truth; `None` if there is none, or no truth.
    - `about`: what of the network's input a symbol leaves open, and what was put in its place.
    """

    method: str
    curve: tuple[Point, ...]
    chosen: Point
    why: str
    accuracy: float | None
    counterexamples: tuple[tuple[int, ...], ...]
    truth: Moore | None
    about: str = ""

    @property
    def machine(self) -> Moore:
        return self.chosen.machine

    @property
    def difference(self) -> tuple[int, ...] | None:
        return None if self.truth is None else self.machine.difference(self.truth)

    @property
    def is_the_truth(self) -> bool:
        """As many states as the true machine has, and no string that tells them apart."""
        return self.truth is not None and self.difference is None and self.machine.size == self.truth.size

    def table(self) -> Table:
        """The curve without machines that are no better than a smaller one."""
        columns = ["states", "as the network: choosing", "scoring", *([] if self.accuracy is None else ["as is true"])]
        rows, best = [], -1.0
        for point in self.curve:
            if point.chosen_by > best or point is self.chosen:
                best = max(best, point.chosen_by)
                shares = (point.chosen_by, point.network, *([] if point.truth is None else [point.truth]))
                mark = " ←" if point is self.chosen else ""
                rows.append((f"{point.states}{mark}", *map(percent, shares)))
        return Table(
            columns, rows, f"{self.method}: how often a machine of so many states predicts what the network does"
        )

    def __str__(self) -> str:
        table, machine = self.table(), self.machine
        lines = [str(table)]
        if len(table.rows) < len(self.curve):
            left_out = len(self.curve) - len(table.rows)
            lines.append(f"{left_out} more, no better than a smaller one, are left out; --json has them.")
        lines.append(f"chosen: {counted(machine.size)}, {self.why}.")
        lines.append(f"fidelity to the network on strings that score: {percent(self.chosen.network)}")
        if self.chosen.truth is not None and self.accuracy is not None:
            own = percent(self.accuracy)
            lines.append(f"fidelity to the truth: {percent(self.chosen.truth)}; the network's own: {own}")
        if self.truth is not None:
            apart = self.difference
            found = "no string tells the two apart." if apart is None else f"they differ on {machine.spell(apart)}"
            lines.append(f"the true machine has {counted(self.truth.size)}; {found}")
        if self.counterexamples:
            lines.append("it differs from the network on: " + "; ".join(map(machine.spell, self.counterexamples)))
        if machine.unknown:
            ways = machine.size * len(machine.symbols)
            lines.append(f"{machine.unknown} of {ways} transitions were never taken by the strings and are not known.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        about = {"method": self.method, "states": self.chosen.states, "why": self.why}
        curve = [
            {"states": p.states, "chosen_by": p.chosen_by, "network": p.network, "truth": p.truth} for p in self.curve
        ]
        machine = self.machine
        found: dict[str, Any] = {
            "fidelity": self.chosen.network,
            "fidelity_to_truth": self.chosen.truth,
            "accuracy_of_network": self.accuracy,
            "unknown_ways": machine.unknown,
            "counterexamples": [machine.spell(string) for string in self.counterexamples],
        }
        if self.truth is not None:
            found["is_the_truth"] = self.is_the_truth
            found["difference"] = None if self.difference is None else machine.spell(self.difference)
        return about | found | {"curve": curve, "machine": machine.to_json()}


def extract(
    reading: Reading,
    method: str = "quotient",
    *,
    states: int | None = None,
    most: int = 64,
    count: int = 400,
    scored: int = 10_000,
    seed: int = 0,
) -> Extraction:
    """The automaton of a network by one of the `METHODS`.

    - `states`: take the best machine with at most so many states; none: the knee of the curve is found.
    - `count`: strings to build on, and as many to choose on. `scored`: strings to score on.
    """
    make = METHODS[choose_from("method", method, METHODS)]
    if states is not None and states < 1:
        raise OptionError(f"an automaton has at least 1 state; got {states}.")
    build, choose = reading.draw(count, 3 * seed), reading.draw(count, 3 * seed + 1)
    predicted = reading.predictions(choose)
    best: dict[int, tuple[float, float, Moore]] = {}  # by size, as the strings that choose see it
    for machine in (each for made in make(reading, build, most) for each in with_known_start(made, build)):
        share, spread = _agreement(reading.outputs_of(machine, choose), predicted)
        if best and machine.size > most:  # learning may find several states at once
            continue
        if machine.size not in best or share > best[machine.size][0]:
            best[machine.size] = (share, spread, machine)
    if states is None:
        size, why = knee({n: (share, spread) for n, (share, spread, _) in best.items()})
    else:
        within = [n for n in best if n <= states] or [min(best)]
        size, why = max(within, key=lambda n: (best[n][0], -n)), f"the best with at most {states} states, as you asked"
    share, spread, machine = best.pop(size)
    machine = completed(machine, reading, build)
    size = machine.size
    best[size] = (*_agreement(reading.outputs_of(machine, choose), predicted), machine)

    strings = reading.draw_test(scored, 3 * seed + 2)
    predicted = reading.predictions(strings)
    true = reading.true(strings)
    curve = []
    for n in sorted(best):
        share, spread, machine = best[n]
        outputs = reading.outputs_of(machine, strings)
        truth = None if true is None else _agreement(outputs, true)[0]
        curve.append(Point(machine, share, spread, _agreement(outputs, predicted)[0], truth))
        if n == size:
            wrong = (outputs != predicted) & (predicted >= 0)
    return Extraction(
        method,
        tuple(curve),
        next(point for point in curve if point.states == size),
        why,
        None if true is None else _agreement(predicted, true)[0],
        _shortest(strings, wrong),
        reading.truth,
    )


def _agreement(outputs: Int[Tensor, "N T"], predicted: Int[Tensor, "N T"]) -> tuple[float, float]:
    """How often the first is the second, where that is known; and the standard error over strings."""
    counts = predicted >= 0
    return over_steps(((outputs == predicted) & counts).sum(1).double(), counts.sum(1).double())


def over_steps(sums: Float[Tensor, " N"], steps: Float[Tensor, " N"]) -> tuple[float, float]:
    """The mean over all steps of strings, of each string's sum and its steps, and the standard error over strings."""
    mean = sums.sum() / steps.sum().clamp(min=1)
    spread = (sums - mean * steps).square().mean().sqrt() / steps.mean().clamp(min=1)
    return float(mean), float(spread) / len(sums) ** 0.5


def knee(found: dict[int, tuple[float, float]]) -> tuple[int, str]:
    """By size, a score and its standard error: the smallest that is nearly as good as the best, and this in words."""
    sizes = sorted(found)
    top = max(sizes, key=lambda n: (found[n][0], -n))
    best, spread = found[top]
    enough = best - spread - WORTH * (best - found[sizes[0]][0])
    size = next(n for n in sizes if found[n][0] >= enough)
    return size, (
        f"the smallest that is as good as the best of the curve ({top} states) on strings that only choose, but for its standard "
        f"error and {WORTH:.0%} of all that states win"
    )


def _shortest(strings: Int[Tensor, "N T"], wrong: Tensor) -> tuple[tuple[int, ...], ...]:
    """The shortest beginnings of strings at whose end something is wrong."""
    rows = torch.nonzero(wrong.any(1)).flatten()
    ends = wrong[rows].long().argmax(1)
    order = ends.argsort(stable=True)[: 10 * SHOWN].tolist()
    return tuple(dict.fromkeys(tuple(strings[rows[k], : ends[k]].tolist()) for k in order))[:SHOWN]
