"""The graph of a recurrent network, rolled and unrolled: what is computed from what, with which weights, and the way back.

Time runs from left to right. A node is an input, a state (all states of a cell at one step), an output, a target or a loss. An
arrow carries the name of the weights that it multiplies by; arrows of one name share their weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recurra.analysis.gradient_map import gradient_map
from recurra.cells.catalogue import find_cell
from recurra.cells.graph import walk
from recurra.cells.notation import Cell
from recurra.errors import OptionError, choose_from
from recurra.layers.recurrent import Recurrent
from recurra.lecture.pairs import kept_pairs
from recurra.results import Result
from recurra.types import Float

LOSSES = ("each", "last", "none")
FEEDINGS = ("none", "teacher", "free")
RECURRENCES = ("state", "output")
MOST = 24
"""Steps that a picture has room for."""


@dataclass(frozen=True)
class Node:
    """One thing of the graph.

    - `kind`: `input`, `state`, `output`, `target` or `loss`. `step`: from 1; 0 is the initial state. `layer`, `direction`: of a
      state, from 0; direction 1 reads from the end. `part`: `encoder` or `decoder`; empty in a network of one part.
    """

    kind: str
    step: int
    layer: int = 0
    direction: int = 0
    part: str = ""


@dataclass(frozen=True)
class Arrow:
    """From one node to another.

    - `weights`: the name of what it multiplies by; empty where nothing is. `delay`: how many steps it spans.
    - `kind`: `forward`, or `fed` (a target or an output that is read at the next step).
    """

    start: Node
    end: Node
    weights: str = ""
    delay: int = 0
    kind: str = "forward"


@dataclass(frozen=True, eq=False)
class UnrolledGraph(Result):
    """A network over some steps.

    - `nodes`, `arrows`: of the unrolled graph. `weights`: by name on arrows, the matrices that it stands for.
    - `kept`: at `[t, k]`, t from 0, whether the truncation lets the loss at t reach t − k.
    - `sizes`: at `[t, k]`, ‖∂s(t)/∂s(t−k)‖ of a given network and input, t from 0 for the state after the first input; `None`
      without one.
    """

    cell: str
    states: tuple[str, ...]
    steps: int
    layers: int
    bidirectional: bool
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    weights: dict[str, tuple[str, ...]]
    truncation: str
    kept: Tensor
    sizes: Float[Tensor, "T T"] | None = None

    def times_used(self, weights: str) -> int:
        """How many arrows share one set of weights."""
        return sum(arrow.weights == weights for arrow in self.arrows)

    def how_often(self, weights: str) -> str:
        """The same in words."""
        count = self.times_used(weights)
        return "once" if count == 1 else f"{count} times"

    def size(self, t: int, k: int) -> float:
        """‖∂s(t)/∂s(t−k)‖ as training sees it, t from 1: zero where the truncation cuts."""
        if self.sizes is None:
            raise OptionError("no gradients were asked for. Give a network and its input: unroll(network, x=x).")
        if not (1 <= t <= self.steps and 0 <= k < t):
            raise OptionError(f"a pair (t, k) has t of 1 to {self.steps} and k of 0 to t − 1; got ({t}, {k}).")
        return float(self.sizes[t - 1, k]) if bool(self.kept[t - 1, k]) else 0.0

    def __str__(self) -> str:
        shared = ", ".join(
            f"{name} ({', '.join(names)}) {self.how_often(name)}" for name, names in self.weights.items()
        )
        kept, all_pairs = int(self.kept.sum()), self.steps * (self.steps + 1) // 2
        reach = f"Truncation {self.truncation} keeps {kept} of {all_pairs} pairs (t, k)."
        return f"{self.cell} over {self.steps} steps. Weights are shared: {shared}. {reach}"

    def to_json(self) -> dict[str, Any]:
        place = {node: k for k, node in enumerate(self.nodes)}
        found: dict[str, Any] = {
            "cell": self.cell,
            "steps": self.steps,
            "layers": self.layers,
            "bidirectional": self.bidirectional,
            "nodes": [vars(node) for node in self.nodes],
            "arrows": [
                {"from": place[a.start], "to": place[a.end], "weights": a.weights, "delay": a.delay, "kind": a.kind}
                for a in self.arrows
            ],
            "weights": {name: list(names) for name, names in self.weights.items()},
            "truncation": self.truncation,
            "kept": [row[: t + 1] for t, row in enumerate(self.kept.tolist())],
        }
        if self.sizes is not None:
            rows = self.sizes.tolist()
            found["sizes"] = [[v if math.isfinite(v) else None for v in row[: t + 1]] for t, row in enumerate(rows)]
        return found

    @property
    def svg(self) -> str:
        """The picture as SVG, on a light ground."""
        from importlib import import_module

        data: bytes = import_module("recurra.plots.figure").to_bytes(self.plot(), "svg")
        return data.decode()

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """Rolled on the left, unrolled on the right; options `rolled` and `backward` (true or false)."""
        return super().plot(file, **options)


def unroll(
    network: Cell | Recurrent | str,
    steps: int = 3,
    *,
    x: Float[Tensor, "T D"] | None = None,
    loss: str = "each",
    truncation: str = "none",
    layers: int = 1,
    bidirectional: bool = False,
    residual: bool = False,
    feeding: str = "none",
    recurrence: str = "state",
    decoder: int = 0,
) -> UnrolledGraph:
    """The graph of a cell or of recurrent layers over some steps.

    - `network`: a cell, its name, or a `Recurrent`, whose layers and directions are then drawn.
    - `x`: an input of a `Recurrent`: the backward arrows get the size of the gradient, and `steps` is its length.
    - `loss`: at `each` step, at the `last` one, or `none`. `truncation`: which pairs (t, k) it keeps.
    - `layers`, `bidirectional`, `residual`: of a cell. `feeding`: `teacher` feeds the target of a step to the next, `free` the
      output. `recurrence`: `output` has no arrow from state to state; the output is read in its place.
    - `decoder`: so many steps of a decoder, which starts from the last state of the encoder.

    ```python
    print(rc.lecture.unroll("gru", steps=3, truncation="every:2"))
    layer = rc.Recurrent("elman", 2, 5)
    graph = rc.lecture.unroll(layer, x=torch.randn(4, 2), truncation="window:2")
    graph.size(4, 1), graph.size(4, 3)                              # ‖∂s(4)/∂s(3)‖; 0, since it is cut
    graph.plot("unrolled.svg")
    ```
    """
    sizes = None
    if isinstance(network, Recurrent):
        cell, layers, bidirectional, residual = (
            network.cell,
            len(network.stack),
            network.bidirectional,
            network.residual,
        )
        if x is not None:
            steps = len(x)
            sizes = gradient_map(network, x).logs[:, :steps].exp()
    else:
        cell = find_cell(network) if isinstance(network, str) else network
        if x is not None:
            raise OptionError("gradients need weights: give a Recurrent with x, not only a cell.")
    _check(steps, layers, decoder, bidirectional, recurrence, feeding)
    choose_from("loss", loss, LOSSES)
    plan = _Plan(cell, layers, bidirectional, residual, choose_from("feeding", feeding, FEEDINGS), recurrence)
    if decoder:
        plan.add(steps, "encoder", "none", outputs="none")
        plan.add(decoder, "decoder", loss, outputs="each")
        for layer in range(layers):
            last = Node("state", steps, layer, 0, "encoder")
            plan.arrows.append(Arrow(last, Node("state", 1, layer, 0, "decoder")))
    else:
        plan.add(steps, "", loss, outputs="last" if loss == "last" else "each")
    pairs = kept_pairs(truncation, decoder or steps)
    return UnrolledGraph(
        cell.name,
        tuple(cell.states),
        steps,
        layers,
        bidirectional,
        tuple(plan.nodes),
        tuple(plan.arrows),
        plan.weights(),
        pairs.truncation,
        pairs.kept,
        sizes,
    )


def _check(steps: int, layers: int, decoder: int, bidirectional: bool, recurrence: str, feeding: str) -> None:
    for name, value, least in (("steps", steps, 1), ("layers", layers, 1), ("decoder", decoder, 0)):
        if not least <= value <= MOST:
            raise OptionError(f"{name} must be {least} to {MOST}, so that the picture can be read; got {value}.")
    choose_from("recurrence", recurrence, RECURRENCES)
    if bidirectional and (recurrence == "output" or feeding != "none" or decoder):
        raise OptionError(
            "a network that reads from both ends cannot read its own outputs. Leave out bidirectional, or recurrence, feeding "
            "and decoder."
        )
    if recurrence == "output" and feeding == "none":
        raise OptionError("recurrence output reads the target or the output: give feeding teacher or free.")


class _Plan:
    """Collects nodes and arrows, part by part."""

    def __init__(self, cell: Cell, layers: int, bidirectional: bool, residual: bool, feeding: str, recurrence: str):
        self.cell, self.layers, self.residual = cell, layers, residual
        self.feeding, self.recurrence = feeding, recurrence
        self.directions = 2 if bidirectional else 1
        self.nodes: list[Node] = []
        self.arrows: list[Arrow] = []
        graph = cell.graph
        # how far back each step looks: 1, and d where the equations have ago(s, d)
        self.delays = sorted({node.delay for node in walk(graph.updates) if node.kind == "state"} or {1})

    def _name(self, base: str, layer: int, direction: int = 0, part: str = "") -> str:
        which = f"{layer + 1}" if self.layers > 1 else ""
        back = "′" if direction else ""
        where = {"encoder": "enc", "decoder": "dec"}.get(part, "")
        return base + back + ("_" if which or where else "") + ",".join(each for each in (where, which) if each)

    def weights(self) -> dict[str, tuple[str, ...]]:
        graph = self.cell.graph
        inputs = tuple(f"W.{name}" for name in graph.drives)
        products = tuple(f"U.{name}" for name in graph.matrices) or ("no matrix: elementwise",)
        kinds = {"W": inputs, "U": products, "V": ("V",), "R": ("R",)}
        used = dict.fromkeys(arrow.weights for arrow in self.arrows if arrow.weights)
        return {name: kinds[name[0]] for name in used}

    def add(self, steps: int, part: str, loss: str, outputs: str) -> None:
        start_from = len(self.nodes)
        has_input = part != "decoder" or self.feeding == "none"
        for t in range(1, steps + 1):
            if has_input:
                self.nodes.append(Node("input", t, part=part))
            for layer in range(self.layers):
                for direction in range(self.directions):
                    self.nodes.append(Node("state", t, layer, direction, part))
            if outputs == "each" or (outputs == "last" and t == steps):
                self.nodes.append(Node("output", t, part=part))
            if loss == "each" or (loss == "last" and t == steps):
                self.nodes += [Node("target", t, part=part), Node("loss", t, part=part)]
        if part != "decoder" and self.recurrence == "state":
            for layer in range(self.layers):
                for direction in range(self.directions):
                    self.nodes.append(Node("state", steps + 1 if direction else 0, layer, direction, part))
        known = set(self.nodes[start_from:])
        for t in range(1, steps + 1):
            self._step(t, steps, part, known)

    def _step(self, t: int, steps: int, part: str, known: set[Node]) -> None:
        for layer in range(self.layers):
            for direction in range(self.directions):
                here = Node("state", t, layer, direction, part)
                below = (
                    [Node("input", t, part=part)]
                    if layer == 0
                    else [Node("state", t, layer - 1, d, part) for d in range(self.directions)]
                )
                weights = self._name("W", layer, direction, part)
                self.arrows += [Arrow(node, here, weights) for node in below if node in known]
                self._back(here, known, self._name("U", layer, direction, part))
        top, out = self.layers - 1, Node("output", t, part=part)
        if out in known:
            for direction in range(self.directions):
                self.arrows.append(
                    Arrow(Node("state", t, top, direction, part), out, self._name("V", 0, direction)[:2].rstrip("_"))
                )
                if self.residual and self.layers > 1:
                    self.arrows.append(Arrow(Node("state", t, top - 1, direction, part), out))
        if Node("loss", t, part=part) in known:
            self.arrows.append(Arrow(out, Node("loss", t, part=part)))
            self.arrows.append(Arrow(Node("target", t, part=part), Node("loss", t, part=part)))
        self._feed(t, part, known)

    def _back(self, here: Node, known: set[Node], weights: str) -> None:
        if self.recurrence == "output":
            return
        for delay in self.delays:
            step = here.step + delay if here.direction else here.step - delay
            before = Node("state", step, here.layer, here.direction, here.part)
            if before in known:
                self.arrows.append(Arrow(before, here, weights, delay))

    def _feed(self, t: int, part: str, known: set[Node]) -> None:
        """What the step before gave, or should have given, is read at this one."""
        if self.feeding == "none" or part == "encoder":
            return
        for kind in ("target", "output") if self.feeding == "teacher" else ("output",):
            before = Node(kind, t - 1, part=part)
            if before in known:
                self.arrows.append(Arrow(before, Node("state", t, part=part), "R", 1, "fed"))
                return


@dataclass(frozen=True, eq=False)
class Wiring(Result):
    """Every unit of a small network and every connection between them.

    - `inputs`: W `[H, D]`. `recurrent`: U `[H, H]`. `outputs`: V `[O, H]`; `None` where nobody knows the weights.
    """

    sizes: tuple[int, int, int]
    inputs: Float[Tensor, "H D"] | None = None
    recurrent: Float[Tensor, "H H"] | None = None
    outputs: Float[Tensor, "O H"] | None = None

    @property
    def connections(self) -> int:
        D, H, O = self.sizes
        return D * H + H * H + H * O

    def __str__(self) -> str:
        D, H, O = self.sizes
        return f"{D} inputs, {H} units, {O} outputs: {D * H} + {H * H} + {H * O} = {self.connections} weights"

    def to_json(self) -> dict[str, Any]:
        return {"sizes": list(self.sizes), "connections": self.connections}


WIDEST = 16
"""Units of a column that a picture has room for."""


def wire(
    input_size: int = 3, hidden_size: int = 5, output_size: int = 4, *, layer: Recurrent | None = None, seed: int = 0
) -> Wiring:
    """All connections of a small network: of sizes, with random weights; or of a `Recurrent` of one matrix (an Elman network).

    ```python
    print(rc.lecture.wire(3, 5, 4))                                 # 15 + 25 + 20 = 60 weights
    rc.lecture.wire(3, 5, 4).plot("wires.svg")
    ```
    """
    made = torch.Generator().manual_seed(seed)
    W, U = None, None
    if layer is not None:
        own = layer.stack[0][0]
        if len(layer.stack) > 1 or layer.bidirectional or len(own.cell.graph.matrices) != 1:
            raise OptionError("wires are drawn of one layer of a cell with one recurrent matrix, such as elman.")
        input_size, hidden_size = layer.input_size, layer.hidden_size
        W, U = own.W.detach().clone(), own.matrix(next(iter(own.cell.graph.matrices))).detach().clone()
    sizes = (input_size, hidden_size, output_size)
    if not all(1 <= size <= WIDEST for size in sizes):
        raise OptionError(f"wires of 1 to {WIDEST} units a column can be told apart; got {sizes}.")
    D, H, O = sizes
    W = torch.randn(H, D, generator=made) if W is None else W
    U = torch.randn(H, H, generator=made) if U is None else U
    return Wiring(sizes, W, U, torch.randn(O, H, generator=made))
