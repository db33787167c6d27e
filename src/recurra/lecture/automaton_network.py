"""A network built to compute a given automaton: weights from its table of transitions, nothing learned.

Minsky 1967: there is a unit for each pair (state q, symbol s), on where the machine was in q and has now read s:

h_(q,s)(t) = σ(g (Σ_{(p,r) leads to q} h_(p,r)(t−1) + [x(t) = s] − 3/2))

It is on only if both are: one unit that leads to q was on, and the symbol is s. Since σ saturates, what is left of an error is
squeezed at every step and never grows: the network is exact on strings of any length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recurra.analysis.automata.finite import Moore
from recurra.cells.elman import elman
from recurra.errors import OptionError
from recurra.layers.recurrent import Recurrent
from recurra.results import Result
from recurra.types import Int


@dataclass(frozen=True, eq=False)
class AutomatonNetwork(Result):
    """An Elman network that is an automaton.

    - `machine`: what it was built from. `layer`, `output`: the network; it reads symbols as unit vectors.
    - `units`: which state and symbol each unit stands for; the first one is on before the first symbol alone.
    - `classes`: the machine's outputs, in the order of the network's.
    """

    machine: Moore
    layer: Recurrent
    output: nn.Linear
    units: tuple[tuple[int, int] | None, ...]
    classes: tuple[str, ...]
    gain: float

    @torch.no_grad()
    def predict(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T"]:
        """The number of the class after each symbol."""
        x = nn.functional.one_hot(strings, len(self.machine.symbols)).to(self.output.weight)
        found: Tensor = self.output(self.layer(x).outputs).argmax(-1)
        return found

    def truth(self, strings: Int[Tensor, "N T"]) -> Int[Tensor, "N T"]:
        """The same by the machine."""
        numbers = torch.tensor([self.classes.index(str(each)) for each in self.machine.outputs])
        return numbers[self.machine.walk(strings)[:, 1:]]

    def check(self, count: int = 10_000, length: int = 50, seed: int = 0) -> NetworkCheck:
        """Random strings read by both, every prefix compared."""
        draw = torch.Generator().manual_seed(seed)
        strings = torch.randint(len(self.machine.symbols), (count, length), generator=draw)
        wrong = (self.predict(strings) != self.truth(strings)).any(1)
        return NetworkCheck(count, length, int(wrong.sum()))

    def __str__(self) -> str:
        machine = self.machine
        return (
            f"an Elman network of {len(self.units)} units for {machine.size} states and {len(machine.symbols)} symbols, gain "
            f"{self.gain:g}: nothing in it was learned"
        )

    def to_json(self) -> dict[str, object]:
        machine = self.machine
        return {"states": machine.size, "symbols": list(machine.symbols), "units": len(self.units), "gain": self.gain}


@dataclass(frozen=True)
class NetworkCheck(Result):
    """`strings` of `length` symbols; `different`: those with a prefix on which network and automaton differ."""

    strings: int
    length: int
    different: int

    def __str__(self) -> str:
        said = "equal" if not self.different else f"different on {self.different:,}"
        return (
            f"network and automaton are {said}: {self.strings:,} strings of {self.length} symbols, after every symbol"
        )


def automaton_network(machine: Moore, gain: float = 40.0) -> AutomatonNetwork:
    """The network of an automaton; every transition must be known.

    - `gain`: how steep units are; below about 10 they leak, and long strings go wrong.

    ```python
    odd = rc.analysis.Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
    network = rc.lecture.automaton_network(odd)
    print(network.check(count=1000))
    ```
    """
    if not machine.is_complete or any(each is None for each in machine.outputs):
        raise OptionError(
            f"a network needs every transition and output of its automaton; {machine.unknown} transition(s) and "
            f"{sum(each is None for each in machine.outputs)} output(s) are not known."
        )
    if not gain > 0:
        raise OptionError(f"gain must be positive; got {gain}.")
    S = len(machine.symbols)
    units: list[tuple[int, int] | None] = [None, *((q, s) for q in range(machine.size) for s in range(S))]
    leads = [0 if unit is None else machine.after[unit[0]][unit[1]] for unit in units]
    classes = tuple(dict.fromkeys(map(str, machine.outputs)))
    layer = Recurrent(
        elman(activation="sigmoid"), S, len(units), learn_initial=True, engine="eager", dtype=torch.float64
    )
    output = nn.Linear(len(units), len(classes), bias=False, dtype=torch.float64)
    direction = layer.stack[0][0]
    assert direction.U is not None
    with torch.no_grad():
        for parameter in (direction.W, direction.U, direction.b, output.weight, *direction.initial):
            parameter.zero_()
        direction.b.fill_(-1.5 * gain)
        direction.initial[0][..., 0] = 1.0
        for k, unit in enumerate(units):
            output.weight[classes.index(str(machine.outputs[leads[k]])), k] = 1.0
            if unit is not None:
                q, s = unit
                direction.W[k, s] = gain
                direction.U[k] = gain * torch.tensor([float(then == q) for then in leads])
    return AutomatonNetwork(machine, layer.eval(), output, tuple(units), classes, gain)
