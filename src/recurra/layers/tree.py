"""`Tree`: recursive networks. Every node of a tree has a state, made of its input and of the states of its children.

Level by level: all nodes of one height, of all trees of a batch, are computed at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from recurra.cells.catalogue import find_cell
from recurra.cells.graph import Node, evaluate_in_order, named_blocks
from recurra.cells.notation import Cell
from recurra.data.forest import Forest, Level
from recurra.errors import OptionError, ShapeError, choose_from
from recurra.layers.direction import Direction
from recurra.layers.initial import fill, orthogonal
from recurra.layers.tree_lstm import run_levels
from recurra.types import Float, Int


@dataclass(frozen=True)
class Children:
    """The children of the nodes of one level, in order of (position, parent).

    - `states`: S states of H numbers each, side by side. `owners`: whose child each is; `positions`: which one.
    - `widths`: the first `widths[j]` nodes have a child at position j. `count`: how many nodes there are.

    Leaves are many, and have nothing to sum up: they share one row of zeros.
    """

    states: Float[Tensor, "M SH"]
    owners: Int[Tensor, " M"]
    positions: Int[Tensor, " M"]
    widths: list[int]
    count: int

    @property
    def rows(self) -> int:
        return self.count if self.widths else 1

    def sum(self, values: Float[Tensor, "M X"]) -> Float[Tensor, "n X"]:
        """For each node, the sum over its children."""
        return values.new_zeros(self.rows, values.shape[1]).index_add(0, self.owners, values)

    def slots(self, values: Float[Tensor, "M X"], arity: int) -> Float[Tensor, "n KX"]:
        """For each node, the values of its children side by side; zeros where there is no child."""
        empty = values.new_zeros(self.rows * arity, values.shape[1])
        return empty.index_copy(0, self.owners * arity + self.positions, values).view(self.rows, -1)


Compose = Callable[[Tensor, Children], Tensor]
"""What the inputs of some nodes bring `[n, GH]` and their children, to the nodes' states `[n, SH]`."""


class Composition(nn.Module, ABC):
    """How a node's state comes about: a module from inputs, and which of them each node of a forest reads (`None`: its own), to
    the outputs of all nodes.

    `states`: how many states of H numbers a node has; the first one is its output.
    """

    states: int

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "M D"], forest: Forest, rows: Int[Tensor, " N"] | None
    ) -> Float[Tensor, "N H"]: ...

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class _ByLevel(Composition):
    """Turns the inputs of all nodes into their drives, in one product, and gives the function that makes the states of one level
    after the other.
    """

    @abstractmethod
    def begin(self, x: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "M GH"], Compose]: ...

    def forward(self, x: Float[Tensor, "M D"], forest: Forest, rows: Int[Tensor, " N"] | None) -> Float[Tensor, "N H"]:
        schedule = forest.schedule
        drives, compose = self.begin(x)
        read = schedule.order if rows is None else rows[schedule.order]
        drives = drives.index_select(0, read.to(x.device))
        groups: list[list[Tensor]] = []  # by level, the states of the nodes whose parents are on one level
        outputs = []
        for level, drive in zip(schedule.levels, drives.split([each.size for each in schedule.levels]), strict=True):
            states = compose(drive, self._children(level, groups, drive))
            outputs.append(states[:, : self.hidden_size])
            leaving = states if level.leave is None else states.index_select(0, level.leave.to(x.device))
            groups.append(list(leaving.split(level.groups)))
        return torch.cat(outputs).index_select(0, schedule.back.to(x.device))

    def _children(self, level: Level, groups: list[list[Tensor]], like: Tensor) -> Children:
        arrived = [groups[lower][k] for lower, k in level.sources]
        states = torch.cat(arrived) if arrived else like.new_zeros(0, self.states * self.hidden_size)
        if level.arrive is not None:
            states = states.index_select(0, level.arrive.to(like.device))
        owners, positions = level.owners.to(like.device), level.positions.to(like.device)
        return Children(states, owners, positions, level.widths, level.size)


class _OfCell(_ByLevel):
    """A cell of equations at a node."""

    def __init__(self, cell: Cell, input_size: int, hidden_size: int, *, reads: int):
        super().__init__(input_size, hidden_size)
        deep = [state.name for state in cell.graph.states if state.depth > 1]
        if deep:
            raise OptionError(
                f"cell {cell.name!r} reads {deep[0]!r} several steps back (ago); a node of a tree has children, and no steps "
                "before them. Use a cell without ago, such as lstm or gru."
            )
        if cell.graph.noises:
            raise OptionError(
                f"cell {cell.name!r} draws masks for the steps of a sequence, which a tree does not have. "
                "Use the cell without them."
            )
        self.cell, self.states = cell, len(cell.graph.states)
        self.weights = Direction(
            cell, reads, hidden_size, learn_initial=False, init=orthogonal, device=None, dtype=None
        )

    def drive(self, x: Float[Tensor, "M D"]) -> Float[Tensor, "M GH"]:
        return linear(x, self.weights.W[:, : self.input_size], self.weights.b)

    def step(self) -> Callable[[Tensor, Tensor], Tensor]:
        """One step of the cell: drives `[n, GH]` and states `[n, SH]` to the next states. Its matrices are made once."""
        graph, H, units = self.cell.graph, self.hidden_size, self.weights.unit_values()
        matrices = {name: self.weights.matrix(name) for name in graph.matrices}

        def product(name: str, v: Tensor) -> Tensor:
            return linear(v, matrices[name])

        def step(drive: Tensor, states: Tensor) -> Tensor:
            drives = dict(zip(graph.drives, named_blocks(drive, H), strict=True))
            before = dict(zip(self.cell.states, states.split(H, dim=1), strict=True))

            def leaf(node: Node) -> Tensor:
                known = {"drive": drives, "state": before}.get(node.kind, units)
                value: Tensor = known[node.name]
                return value

            values = evaluate_in_order(graph.nodes, leaf, product)
            after = [torch.as_tensor(values[update]).to(drive).expand(len(drive), H) for update in graph.updates]
            return torch.cat(after, dim=1) if len(after) > 1 else after[0]

        return step

    def extra_repr(self) -> str:
        return f"{self.cell.name}, {super().extra_repr()}"


class Sum(_OfCell):
    """One step of a cell from the sum of the children's states: s = cell(x, Σₖ sₖ).

    With `elman` the plain recursive network, h = tanh(W x + b + U Σₖ hₖ). It does not see the children's order.
    """

    def __init__(self, cell: Cell, input_size: int, hidden_size: int):
        super().__init__(cell, input_size, hidden_size, reads=input_size)

    def begin(self, x: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "M GH"], Compose]:
        step = self.step()
        return self.drive(x), lambda drive, children: step(drive, children.sum(children.states))


class Fold(_OfCell):
    """A cell that goes along the children, from left to right, and closes the node:

        s₀ = 0,   sⱼ = cell([x; hⱼ], sⱼ₋₁) for each child j = 1 … k,   s = cell([x; e], sₖ)

    where x is the node's input, hⱼ the output of child j, and e a vector that is learned: the end. Any number of children, in
    order; a leaf takes the last step alone.
    """

    def __init__(self, cell: Cell, input_size: int, hidden_size: int):
        super().__init__(cell, input_size, hidden_size, reads=input_size + hidden_size)
        self.end = nn.Parameter(torch.zeros(hidden_size))

    def begin(self, x: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "M GH"], Compose]:
        H, step, of_child = self.hidden_size, self.step(), self.weights.W[:, self.input_size :]
        end = linear(self.end, of_child)

        def compose(drive: Tensor, children: Children) -> Tensor:
            states = drive.new_zeros(1, self.states * H)  # one row for all: the products of nothing cost nothing
            finished: list[Tensor] = []  # nodes whose children have all been read: those with the fewest come first
            if children.widths:
                read = linear(children.states[:, :H], of_child)
                for width, arriving in zip(children.widths, read.split(children.widths), strict=True):
                    if width < len(states):
                        finished.append(states[width:])
                    states = step(drive[:width] + arriving, states[:width])
                states = torch.cat([states, *reversed(finished)]) if finished else states
            return step(drive + end, states)

        return self.drive(x), compose


class _OwnWeights(Composition):
    """Compositions with equations of their own: W and b for the input, U for the children."""

    def __init__(self, input_size: int, hidden_size: int, *, gates: int, rows: int, columns: int):
        super().__init__(input_size, hidden_size)
        H = hidden_size
        self.W, self.b = nn.Parameter(torch.empty(gates * H, input_size)), nn.Parameter(torch.zeros(gates * H))
        self.U = nn.Parameter(torch.empty(rows * H, columns * H))
        with torch.no_grad():
            for part in self.W.split(H):
                nn.init.xavier_uniform_(part)
            for row in self.U.split(H):
                for block in row.split(H, dim=1):
                    fill(block, orthogonal)


class _OwnEquations(_OwnWeights, _ByLevel):
    def begin(self, x: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "M GH"], Compose]:
        return linear(x, self.W, self.b), self.compose

    @abstractmethod
    def compose(self, drive: Float[Tensor, "n GH"], children: Children) -> Float[Tensor, "n SH"]: ...


class Plain(_OwnEquations):
    """The plain recursive network with a matrix for each position: h = tanh(W x + b + Σₖ Uₖ hₖ). Pollack 1990."""

    states = 1

    def __init__(self, input_size: int, hidden_size: int, arity: int):
        super().__init__(input_size, hidden_size, gates=1, rows=1, columns=arity)
        self.arity = arity

    def compose(self, drive: Float[Tensor, "n GH"], children: Children) -> Float[Tensor, "n SH"]:
        return torch.tanh(drive + linear(children.slots(children.states, self.arity), self.U))


class ChildSum(_OwnEquations):
    """Child-sum Tree-LSTM: the children's outputs are added up, and each child has a forget gate of its own.

        h̃ = Σₖ hₖ,   i, o, u = σ, σ, tanh (W x + b + U h̃),   fₖ = σ(W_f x + b_f + U_f hₖ),
        c = i u + Σₖ fₖ cₖ,   h = o tanh(c)

    Tai, Socher & Manning 2015, equations 2 to 8. The forget gate's bias starts at 1.
    """

    states = 2

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, gates=4, rows=4, columns=1)
        with torch.no_grad():
            self.b[-hidden_size:] = 1

    def compose(self, drive: Float[Tensor, "n GH"], children: Children) -> Float[Tensor, "n SH"]:
        H = self.hidden_size
        h, c = children.states.split(H, dim=1)
        i, o, u = (drive[:, : 3 * H] + linear(children.sum(h), self.U[: 3 * H])).split(H, dim=1)
        f = torch.sigmoid(drive[:, 3 * H :].index_select(0, children.owners) + linear(h, self.U[3 * H :]))
        return _lstm_end(i, o, u, children.sum(f * c))


class NAry(_OwnWeights):
    """N-ary Tree-LSTM: a matrix for each position, and forget gates in which every child acts on every other's.

        i, o, u = σ, σ, tanh (W x + b + Σₗ Uₗ hₗ),   fₖ = σ(W_f x + b_f + Σₗ Uₖₗ hₗ),
        c = i u + Σₖ fₖ cₖ,   h = o tanh(c)

    Tai, Socher & Manning 2015, equations 9 to 14. At most `arity` children. The forget gate's bias starts at 1.
    """

    states = 2

    def __init__(self, input_size: int, hidden_size: int, arity: int):
        super().__init__(input_size, hidden_size, gates=4, rows=3 + arity, columns=arity)
        self.arity = arity
        with torch.no_grad():
            self.b[-hidden_size:] = 1

    def forward(self, x: Float[Tensor, "M D"], forest: Forest, rows: Int[Tensor, " N"] | None) -> Float[Tensor, "N H"]:
        drives = linear(x, self.W, self.b)
        with torch.autocast(x.device.type, enabled=False):  # states and sums keep their precision
            return run_levels(drives.to(self.U.dtype), self.U, forest, rows)


def _lstm_end(i: Tensor, o: Tensor, u: Tensor, kept: Tensor) -> Tensor:
    c = torch.sigmoid(i) * torch.tanh(u) + kept
    return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=1)


COMPOSITIONS: dict[str, type[Any]] = {
    "fold": Fold,
    "sum": Sum,
    "plain": Plain,
    "child-sum": ChildSum,
    "n-ary": NAry,
}
OF_CELLS, BY_POSITION = ("fold", "sum"), ("plain", "n-ary")
"""Compositions that take any cell; and those that have a matrix for each position, and so a largest number of children."""


class Tree(nn.Module):
    """A recursive network over given trees.

    - `input_size`, `hidden_size`: of a node's input and of its output.
    - `composition`: `fold` (a cell goes along the children), `sum` (one step of a cell from the sum of the children's states),
      `plain`, `child-sum` and `n-ary` (equations of their own).
    - `cell`: for `fold` and `sum`, a cell or its name; `lstm` if left out.
    - `arity`: for `plain` and `n-ary`, the most children that a node may have; 2 if left out.

    ```python
    forest = rc.data.make_forest([[-1, 0, 0]], [[0, 1, 2]])          # one tree: a root with two leaves
    layer = rc.Tree(8, 16, composition="fold", cell="gru")
    outputs = layer(torch.randn(3, 8), forest)               # [3, 16]: one row for each node, in the forest's order
    outputs[forest.roots]                                    # [1, 16]
    ```
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        composition: str = "fold",
        cell: Cell | str | None = None,
        arity: int | None = None,
    ):
        super().__init__()
        choose_from("composition", composition, COMPOSITIONS)
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("arity", arity)):
            if size is not None and size < 1:
                raise OptionError(f"{name} must be at least 1; got {size}.")
        if cell is not None and composition not in OF_CELLS:
            raise OptionError(
                f"composition {composition!r} has equations of its own and takes no cell; {' and '.join(OF_CELLS)} do."
            )
        if arity is not None and composition not in BY_POSITION:
            raise OptionError(
                f"composition {composition!r} takes any number of children; arity is for {' and '.join(BY_POSITION)}."
            )
        self.input_size, self.hidden_size, self.arity = input_size, hidden_size, arity
        if composition in OF_CELLS:
            found = cell if isinstance(cell, Cell) else find_cell(cell or "lstm")
            self.composition: Composition = COMPOSITIONS[composition](found, input_size, hidden_size)
        elif composition in BY_POSITION:
            self.arity = arity or 2
            self.composition = COMPOSITIONS[composition](input_size, hidden_size, self.arity)
        else:
            self.composition = COMPOSITIONS[composition](input_size, hidden_size)

    def forward(self, x: Tensor, forest: Forest, rows: Int[Tensor, " N"] | None = None) -> Tensor:
        """The output of every node, `[N, H]`, from the input of every node, `[N, D]`, both in the forest's order.

        - `rows`: where nodes share inputs, which row of x each of them reads; x is then `[M, D]`.
        """
        if rows is not None and list(rows.shape) != [forest.nodes]:
            raise ShapeError(f"rows must name one input for each of {forest.nodes} nodes; got {list(rows.shape)}.")
        if list(x.shape) != [forest.nodes if rows is None else len(x), self.input_size]:
            raise ShapeError(
                f"a tree layer expects one input of size {self.input_size} (input_size) for each of the forest's "
                f"{forest.nodes} nodes; got {list(x.shape)}."
            )
        if rows is not None and len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(x):
            raise ShapeError(
                f"rows must be 0 to {len(x) - 1}, the rows of x; got {int(rows.min())} to {int(rows.max())}."
            )
        if self.arity is not None and forest.widest > self.arity:
            raise ShapeError(
                f"a node has {forest.widest} children, but there are matrices for {self.arity} (arity). "
                f"Pass arity={forest.widest}, or take fold, sum or child-sum."
            )
        outputs: Tensor = self.composition(x, forest, rows)
        return outputs
