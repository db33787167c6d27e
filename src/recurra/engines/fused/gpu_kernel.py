"""What kernels for GPUs have in common, whichever language they are printed in: tiles, arguments, addresses, stores.

A run is one launch. Each tile, some units of some batch rows, belongs to one thread block (CUDA) or program (Triton)
for all of time; its states stay in registers, and so does its slice of the recurrent weights where it fits. A product
needs whole rows, so tiles hand their parts of a row to one another through memory, and wait for each other by data
alone:

- A buffer that is waited for starts with every bit set. That is a NaN which no store leaves behind: the sentinel.
- A reader spins on the sentinel: it loads its whole row, past the L1 cache, until none is left in it, and then
  multiplies.
- Each place is written once in a launch, in one piece (of two neighbours in CUDA C++), and never changes again.

So whatever a reader finds that is no sentinel is the final value, nothing else has to be ordered, and no fence or flag
is needed: a hand-over costs one way through the L2 cache instead of a barrier's three. It ends because all tiles of a
launch are resident at once (a cooperative launch, of as many batch rows as fit), and because a tile stores what others
wait for before it waits itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

from recurra.cells.graph import Node
from recurra.engines.fused.stages import Place, Plan, Step


@dataclass(frozen=True)
class Tiles:
    """How a run is divided into tiles.

    - `units`, `rows`: the size of a tile in units and batch rows; powers of two. `alone`: it has all units, waits for nobody.
    - `resident`: weights stay in registers or shared memory from step to step; otherwise each step reads them again, from
      the L2 cache where they fit.
    - `split`: into how many sums over parts of the inputs a product is divided, for warps to work on side by side.
    - `native`: written in CUDA C++, with weights of `itemsize` bytes in registers; otherwise in Triton. `buffers`: for the sums
      of products; with two, no warp waits until the others have read theirs.
    """

    H: int
    rows: int
    units: int
    alone: bool = False
    resident: bool = True
    warps: int = 4
    split: int = 1
    native: bool = False
    itemsize: int = 2
    buffers: int = 2

    @property
    def count(self) -> int:
        """Tiles that share the units."""
        return -(-self.H // self.units)


@dataclass(frozen=True)
class Source:
    """Generated code with the names of the arguments of its function."""

    text: str
    arguments: tuple[str, ...]


def exchanged_rows(step: Step, tiles: Tiles) -> list[int]:
    """The rows between passes that tiles hand to one another: those that products read."""
    if tiles.alone:
        return []
    return sorted({product.source.number for product in step.products if product.source.kind == "row"})


@lru_cache(maxsize=1024)
def awaited_states(step: Step) -> frozenset[str]:
    """The states that products read, and so other tiles than those that store them."""
    return frozenset(product.source.name for product in step.products if product.source.kind == "state")


def state_argument(name: str, role: str = "s") -> str:
    """What an argument of a kernel is called that belongs to a state. The role comes first: no state's name can be taken for it.

    - `s`: its values; `initial`, `final`: those before the first step (none: zeros) and before each batch row's end, or their
      gradients;
    - `arriving`: gradients from outside at each step; `per_step`, `per_row`: how far these lie apart.
    """
    return f"{role}_{name}"


@dataclass(frozen=True)
class Address:
    """Where the rows of a step lie in a buffer `[steps, B, blocks H]`; `shift` is added to the step, `blocks` is None for 1."""

    buffer: str
    shift: int | None = None
    blocks: int | None = None
    block: int = 0

    def at(self, step: str) -> str:
        return step if self.shift is None else f"({step} + {self.shift})"

    def row(self, step: str, H: int) -> tuple[str, str]:
        """The address of the first batch row at a step, and the distance to the next."""
        if self.blocks is None:
            return f"{self.buffer} + {self.at(step)} * B * H", "H"
        width = self.blocks * H
        return f"{self.buffer} + {self.at(step)} * B * {width} + {self.block * H}", str(width)


class Kernel(ABC):
    """A plan's forward or backward run in one launch. Subclasses print it in a language: they say how this language writes
    a variable that each thread has for each of its units, an address, a store, the products and the loops around them."""

    row: str  # the number of a batch row, in an address
    own: str  # a variable that each thread has for each unit and batch row of its own
    now: str  # one that was loaded ahead of time
    end: str  # of a line

    def __init__(self, plan: Plan, tiles: Tiles, *, forward: bool):
        self.plan, self.graph, self.tiles, self.forward = plan, plan.graph, tiles, forward
        self.name, self.step = ("forward", plan.forward) if forward else ("backward", plan.backward)
        self.rows = exchanged_rows(self.step, tiles)
        self.carried: set[tuple[str, int]] = set()  # gradients that this step hands to earlier values of a state
        # the arguments with their types in CUDA C++
        self.types = {"T": "whole", "B": "whole", "lengths": "const whole*", "tape": "number*"}
        self.types |= {state_argument(state.name): "number*" for state in self.graph.states}
        if self.graph.drives:
            self.types["bias"] = "const parameter*"
        self.types |= {f"p_{name}": "const float*" for name in self.graph.parameters}
        for name in self.graph.noises:
            self.types |= {f"n_{name}": "const parameter*", f"by_step_{name}": "whole", f"by_row_{name}": "whole"}
        self.types |= {f"weights_{k}": "const number*" for k in range(len(plan.groups))}
        if forward:
            self.types |= {f"rows_{k}": "number*" for k in self.rows}
            return
        kinds = {"arriving": "const number*", "per_step": "whole", "per_row": "whole", "final": "const number*"}
        for state in self.graph.states:
            self.types |= {state_argument(state.name, role): kind for role, kind in kinds.items()}
            self.types[state_argument(state.name, "initial")] = "float*"
        self.types |= {"gradient": "number*", "sums": "float*"}
        self.types |= {f"argument_{k}": "number*" for k in sorted({n for n in plan.arguments if n is not None})}

    # -- memory ------------------------------------------------------------------------------------------------------

    def address(self, place: Place) -> Address:
        match place.kind:
            case "tape":
                return Address("tape", None, self.plan.slots, place.number)
            case "gradient":
                return Address("gradient", None, self.plan.gradients, place.number)
            case "row":
                return Address(f"rows_{place.number}")
            case "argument":
                return Address(f"argument_{place.number}")
            case "state" | "next":
                delay = place.number if place.kind == "state" else 0
                return Address(state_argument(place.name), self.graph.depth(place.name) - delay)
        raise AssertionError(place)

    def prefetched(self, place: Place) -> str:
        """The name under which a number of this step is prefetched while an earlier one is computed: it was in memory before the
        kernel began. Empty for places of which this is not true."""
        match place.kind:
            case "tape":
                return f"tape_{place.number}"
            case "noise":
                return f"noise_{place.name}"
            case "state" | "next" if not self.forward:
                return f"state_{place.name}_at_{self.address(place).shift}"
        return ""

    def prefetch_address(self, place: Place, step: str) -> str:
        if place.kind == "noise":
            return self.strided(f"n_{place.name}", f"by_step_{place.name}", f"by_row_{place.name}", step)
        return self.element(self.address(place), step)

    def strided(self, buffer: str, per_step: str, per_row: str, step: str) -> str:
        return f"{buffer} + {step} * {per_step} + {self.row} * {per_row} + unit"

    def arriving_address(self, state: str, step: str) -> str:
        """Of what arrives at a state's gradient from outside."""
        return self.strided(f"arriving_{state}", f"per_step_{state}", f"per_row_{state}", step)

    def first_value(self, name: str, number: int) -> list[str]:
        """A value that a state has before the first step, given or zero; it is put before those to come."""
        initial, to = state_argument(name, "initial"), Address(state_argument(name))
        given = self.element(Address(initial), str(number))
        first = f"first_{name}_{number}"
        return [
            f"const two {first} = {initial} ? wide(load({given})) : two();",
            f"put({self.element(to, str(number))}, {first});",
        ]

    def read(self, node: Node, place: Place) -> str:
        name = self.prefetched(place)
        if name:
            loaded = self.now.format(name)
            return f"({loaded} + bias_{self.graph.drives.index(node.name)})" if node.kind == "drive" else loaded
        match place.kind:
            case "parameter":
                return f"parameter_{place.name}"
            case "tile":
                return self.tile(place)
            case "mean":
                return f"mean_{place.number}"
            case "adjoint":
                return self.own.format(f"arrived_{place.name}")
            case "state" if place.number == 1:
                return self.own.format(f"last_{place.name}")
            case "state":
                return self.older(place)
        raise AssertionError(place)

    def store(self, place: Place, value: str) -> list[str]:
        """The lines that put a value where it belongs."""
        match place.kind:
            case "row" if place.number not in self.rows:
                return []  # only this thread reads it
            case "next":
                return self.store_next(place, value)
            case "parameter_gradient":
                return [f"total_{place.number} += {self.masked(value)}{self.end}"]
            case "carry":
                self.carried.add((place.name, place.number))
                carry = self.own.format(f"carry_{place.name}_{place.number}")
                return [f"{carry} = {self.masked(value)}{self.end}"]
        return [self.put(self.address(place), self.masked(value), awaited=place.kind in ("row", "gradient"))]

    def due(self, state: str) -> list[list[str]]:
        """What will arrive at each value of a state that an earlier step computed, once this step is done: what was due
        already and what this step carries to it. `due_0` belongs to the step that comes next, backward in time."""
        K = self.graph.depth(state)
        return [
            [f"due_{state}_{d}"] * (d < K) + [f"carry_{state}_{d}"] * ((state, d) in self.carried)
            for d in range(1, K + 1)
        ]

    @abstractmethod
    def tile(self, place: Place) -> str:
        """An output of a product."""

    @abstractmethod
    def older(self, place: Place) -> str:
        """A state of more than one step ago, in the forward run."""

    @abstractmethod
    def element(self, address: Address, step: str) -> str:
        """The address of this thread's own numbers."""

    @abstractmethod
    def masked(self, value: str) -> str:
        """In the backward run zero past a batch row's end."""

    @abstractmethod
    def put(self, address: Address, value: str, *, awaited: bool) -> str:
        """A store; other tiles may wait for it."""

    @abstractmethod
    def store_next(self, place: Place, value: str) -> list[str]: ...
