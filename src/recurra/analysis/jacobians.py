"""One step of a network as a map of its whole state, s ↦ F(s, x), and the Jacobians of that map from the cell's graph.

The derivatives are those of the operations' table, propagated forward through the equations; autograd is only the check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from recurra.cells.graph import Node, block, make, named_blocks, walk
from recurra.cells.operations import OPERATIONS
from recurra.cells.slopes import Slope, centred, slopes
from recurra.engines.protocol import Weights
from recurra.errors import OptionError
from recurra.layers.direction import Direction
from recurra.layers.recurrent import Recurrent
from recurra.types import CellState, Float, State


class _Layer:
    """One layer: its equations as values, and as slopes with respect to every state that it reads and every drive."""

    def __init__(self, direction: Direction, dtype: torch.dtype):
        self.cell, self.graph, self.H = direction.cell, direction.cell.graph, direction.hidden_size
        with torch.no_grad():
            weights = direction.weights(1, 1)
            self.W, self.b, U = (each.detach().to(dtype) for each in (weights.W, weights.b, weights.U))
            self.units = {name: value.detach().to(dtype) for name, value in weights.units.items()}
            masks = {name: value.detach().to(dtype) for name, value in weights.noise.items()}
            self.weights = Weights(self.W, self.b, U, self.units, masks)  # for engines, which run all steps at once
        self.noise = {name: declared.mean for name, declared in self.graph.noises.items()}
        self.matrices = {name: block(U, self.graph.matrices, [name], self.H) for name in self.graph.matrices}
        self.depths = [state.depth for state in self.graph.states]
        self.size = sum(self.depths) * self.H
        self.order = walk(self.graph.updates)
        self.held: dict[Node, list[tuple[slice, int, float]]] = {}

    def values(self, s: Float[Tensor, "N S"], x: Float[Tensor, "N D"]) -> dict[Node, Tensor | float]:
        """Every value of one step."""
        drives = dict(zip(self.graph.drives, named_blocks(linear(x, self.W, self.b), self.H), strict=True))
        past = self.unpack(s)
        values: dict[Node, Tensor | float] = {}
        for node in self.order:
            inner = [values[argument] for argument in node.arguments]
            match node.kind:
                case "constant":
                    values[node] = node.value
                case "drive":
                    values[node] = drives[node.name]
                case "state":
                    values[node] = past[node.name][:, -node.delay]
                case "noise":
                    values[node] = self.noise[node.name]
                case "parameter":
                    values[node] = self.units[node.name]
                case "product":
                    values[node] = linear(self.wide(inner[0], s), self.matrices[node.name])
                case "norm":
                    middle, spread = centred(self.wide(inner[0], s))
                    values[node] = self.units[node.name] * middle / spread
                case _:
                    values[node] = OPERATIONS[node.kind].value(*inner)
            if node in self.held:
                values[node] = self.wide(values[node], s).clone()
                for rows, unit, value in self.held[node]:
                    values[node][rows, unit] = value  # type: ignore[index]
        return values

    def wide(self, value: Tensor | float, like: Tensor) -> Float[Tensor, "N H"]:
        return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand(len(like), self.H)

    def unpack(self, s: Float[Tensor, "N S"]) -> dict[str, Float[Tensor, "N K H"]]:
        """Each state's values, oldest first."""
        parts = s.split([depth * self.H for depth in self.depths], dim=-1)
        return {
            state.name: part.unflatten(-1, (state.depth, self.H))
            for state, part in zip(self.graph.states, parts, strict=True)
        }

    def after(self, s: Tensor, values: dict[Node, Tensor | float]) -> Float[Tensor, "N S"]:
        """The next state: each history moves on by one step."""
        past = self.unpack(s)
        parts = []
        for state, update in zip(self.graph.states, self.graph.updates, strict=True):
            new = self.wide(values[update], s)
            parts.append(torch.cat([past[state.name][:, 1:].flatten(1), new], dim=-1))
        return torch.cat(parts, dim=-1)

    def slopes(self, values: dict[Node, Tensor | float], like: Tensor) -> dict[Node, dict[Node, Slope]]:
        """For every value, its slope with respect to each state and drive that it depends on."""
        return slopes(Slope, self.order, values, self.matrices, self.units, like[..., : self.H])


@dataclass(frozen=True)
class Step:
    """One step from N states: `next` is F(s, x), `state` is ∂F/∂s, `input` is ∂F/∂x."""

    next: Float[Tensor, "N S"]
    state: Float[Tensor, "N S S"]
    input: Float[Tensor, "N S D"]


@dataclass(frozen=True)
class AtLayer:
    """A layer within one step: its state before, what it reads, and every value of its equations."""

    layer: _Layer
    state: Float[Tensor, "N S"]
    read: Float[Tensor, "N D"]
    values: dict[Node, Tensor | float]


class StepMap:
    """F(s, x) of a recurrent network: the next full state from the state and the input.

    s holds every state of every layer (h and c, and as many steps of the past as `ago` reads, oldest first), layer by layer.

    ```python
    layer = rc.Recurrent("lstm", input_size=3, hidden_size=8)
    F = rc.analysis.StepMap(layer)
    s = torch.zeros(5, F.size, dtype=F.dtype)
    x = torch.randn(5, 3, dtype=F.dtype)
    step = F.step(s, x)
    step.state.shape            # [5, 16, 16]: ∂(h, c)/∂(h, c) of each row
    ```

    - `dtype`: float64 by default, whatever the layer's own: fixed points and exponents are decided by small differences.
    """

    def __init__(self, layer: Recurrent, dtype: torch.dtype = torch.float64):
        if layer.bidirectional:
            raise OptionError(
                "a bidirectional network has no state that goes forward in time alone; analyse one that runs forward."
            )
        training = layer.training
        layer.eval()  # masks are at their mean
        self.layers = [_Layer(directions[0], dtype) for directions in layer.stack]
        layer.train(training)
        self.residual, self.dtype = layer.residual, dtype
        self.input_size, self.hidden_size = layer.input_size, layer.hidden_sizes[-1]
        self.size = sum(each.size for each in self.layers)
        self.sizes = [each.size for each in self.layers]
        self.start = self.pack(layer.initial_state(1)).detach()[0]

    def __call__(self, s: Float[Tensor, "N S"], x: Float[Tensor, "N D"]) -> Float[Tensor, "N S"]:
        """F(s, x); one x for all, or one for each."""
        return torch.cat([at.layer.after(at.state, at.values) for at in self.walk(s, x)], dim=-1)

    def walk(self, s: Float[Tensor, "N S"], x: Float[Tensor, "N D"]) -> Iterator[AtLayer]:
        """One step, layer by layer from below: each reads the output of the one below it at this step."""
        y = x.to(s.dtype).expand(len(s), -1)
        for k, (layer, own) in enumerate(zip(self.layers, s.split(self.sizes, dim=-1), strict=True)):
            values = layer.values(own, y)
            yield AtLayer(layer, own, y, values)
            out = layer.wide(values[layer.graph.updates[0]], own)
            y = out + y if self.residual and k else out

    def hold(self, layer: int, name: str, unit: int, value: float, rows: slice = slice(None)) -> None:
        """From now on, one unit of a state or gate has this value at every step, for all that read it; in some rows of s only."""
        graph = self.layers[layer].graph
        updates = {state.name: update for state, update in zip(graph.states, graph.updates, strict=True)}
        self.layers[layer].held.setdefault(({**graph.gates, **updates})[name], []).append((rows, unit, value))

    def step(self, s: Float[Tensor, "N S"], x: Float[Tensor, "N D"]) -> Step:
        """F(s, x) with both of its Jacobians."""
        nexts: list[Tensor] = []
        by_state, by_input = self._derive(s, x, nexts)
        return Step(torch.cat(nexts, dim=-1), by_state, by_input)

    def jacobian(self, s: Float[Tensor, "N S"], x: Float[Tensor, "N D"]) -> Float[Tensor, "N S S"]:
        """∂F/∂s alone."""
        return self._derive(s, x, None)[0]

    def _derive(self, s: Tensor, x: Tensor, nexts: list[Tensor] | None) -> tuple[Tensor, Tensor]:
        """∂F/∂s and ∂F/∂x, with the next states put into a list; without a list, ∂F/∂x has no columns."""
        N, D = len(s), self.input_size if nexts is not None else 0
        # how what a layer reads depends on the full state and on x
        read_state = s.new_zeros(N, self.input_size, self.size)
        read_input = torch.eye(self.input_size, dtype=s.dtype)[:, :D].expand(N, -1, -1)
        by_state, by_input = s.new_zeros(N, self.size, self.size), s.new_zeros(N, self.size, D)
        start = 0
        for k, at in enumerate(self.walk(s, x)):
            layer, own = at.layer, at.state
            if nexts is not None:
                nexts.append(layer.after(own, at.values))
            slopes = layer.slopes(at.values, own)
            out_state, out_input = None, None
            place = start
            for state, update in zip(layer.graph.states, layer.graph.updates, strict=True):
                H, moved = layer.H, (state.depth - 1) * layer.H
                rows = slice(place + moved, place + moved + H)  # of the newest value; the others only move on
                if moved:
                    shift = torch.arange(moved)
                    by_state[:, place + shift, place + H + shift] = 1
                direct = self._own(layer, slopes[update], own, start)
                if k or D:
                    through = self._drives(layer, slopes[update], own)
                    direct = direct + through @ read_state if k else direct  # x does not depend on the state
                    by_input[:, rows] = through @ read_input
                by_state[:, rows] = direct
                if out_state is None:
                    out_state, out_input = by_state[:, rows], by_input[:, rows]
                place += state.depth * H
            assert out_state is not None and out_input is not None  # noqa: PT018
            keep = self.residual and k > 0
            read_state = out_state + read_state if keep else out_state
            read_input = out_input + read_input if keep else out_input
            start += layer.size
        return by_state, by_input

    @property
    def local(self) -> slice | None:
        """Where a part of the state stands that each unit of the next state reads from the same unit alone, as it does an
        LSTM's c; `None` where there is no such part."""
        layer = self.layers[-1]  # of other layers, the one above reads everything
        zeros = torch.zeros(1, layer.size, dtype=self.dtype)
        slopes = layer.slopes(layer.values(zeros, zeros.new_zeros(1, layer.W.shape[1])), zeros)
        place = self.size
        for state in reversed(layer.graph.states):
            place -= state.depth * layer.H
            leaf = make("state", name=state.name, delay=1)
            read = [slopes[update][leaf] for update in layer.graph.updates if leaf in slopes[update]]
            if state.depth == 1 and not any(slope.rows or slope.dense is not None for slope in read):
                return slice(place, place + layer.H)
        return None

    def _own(self, layer: _Layer, slopes: dict[Node, Slope], like: Tensor, start: int) -> Float[Tensor, "N H S"]:
        """The part through the layer's own states."""
        made = like.new_zeros(len(like), layer.H, self.size)
        place = start
        for state in layer.graph.states:
            for delay in range(1, state.depth + 1):
                slope = slopes.get(make("state", name=state.name, delay=delay))
                if slope is not None:
                    columns = place + (state.depth - delay) * layer.H
                    made[:, :, columns : columns + layer.H] = slope.matrix(layer.matrices, like[:, : layer.H])
            place += state.depth * layer.H
        return made

    def _drives(self, layer: _Layer, slopes: dict[Node, Slope], like: Tensor) -> Float[Tensor, "N H D"]:
        """The part through the drives, as a map of what the layer reads."""
        made = like.new_zeros(len(like), layer.H, layer.W.shape[1])
        for name in layer.graph.drives:
            slope = slopes.get(make("drive", name=name))
            if slope is None:
                continue
            W = block(layer.W, layer.graph.drives, [name], layer.H)
            rest = slope.rows_as_dense(layer.matrices)
            diagonal = slope.diagonal[..., None] if isinstance(slope.diagonal, Tensor) else slope.diagonal
            made += diagonal * W if rest is None else diagonal * W + rest @ W
        return made

    def pack(self, state: State) -> Float[Tensor, "N S"]:
        """A state as layers give it, as one row for each batch row."""
        parts = [each.flatten(1).to(self.dtype) for layer in state for each in layer[0]]
        return torch.cat(parts, dim=-1)

    def unpack(self, s: Float[Tensor, "N S"], dtype: torch.dtype | None = None) -> State:
        """The opposite of `pack`."""
        made = []
        for layer, own in zip(self.layers, s.split(self.sizes, dim=-1), strict=True):
            values = layer.unpack(own.to(dtype or self.dtype)).values()
            made.append((cast(CellState, tuple(v[:, 0] if v.shape[1] == 1 else v for v in values)),))
        return tuple(made)

    def outputs(self, s: Float[Tensor, "N S"]) -> Float[Tensor, "N H"]:
        """The last layer's output in each state: what a readout reads."""
        y: Tensor | None = None
        for layer, own in zip(self.layers, s.split(self.sizes, dim=-1), strict=True):
            h = next(iter(layer.unpack(own).values()))[:, -1]
            y = h + y if y is not None and self.residual else h
        assert y is not None
        return y

    @torch.no_grad()
    def visited(self, x: Float[Tensor, "B T D"] | None = None, state: State | None = None) -> Float[Tensor, "B T S"]:
        """The full state after every step of some sequences; without any, of eight of standard normal noise, 100 steps long."""
        if x is None:
            noise = torch.Generator().manual_seed(0)
            x = torch.randn(8, 100, self.input_size, dtype=self.dtype, generator=noise)
        s = self.start.expand(len(x), -1) if state is None else self.pack(state)
        found = []
        for t in range(x.shape[1]):
            s = self(s, x[:, t].to(self.dtype))
            found.append(s)
        return torch.stack(found, dim=1)


def step_map(network: StepMap | nn.Module) -> StepMap:
    """The step of a network: of recurrent layers, or of a module that has one `Recurrent` inside."""
    if isinstance(network, StepMap):
        return network
    found = [each for each in network.modules() if isinstance(each, Recurrent)]
    if len(found) != 1:
        raise OptionError(
            f"an analysis needs one Recurrent; {type(network).__name__} has {len(found)}. Pass the layer that you mean."
        )
    return StepMap(found[0])
