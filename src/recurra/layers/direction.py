"""One layer of a cell in one direction: its weights, and a run of them through time."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, softplus

from recurra.cells.graph import Node, block, evaluate
from recurra.cells.notation import Cell
from recurra.cells.parameters import Learned, spread
from recurra.engines.operators import text_of
from recurra.engines.protocol import Run, Weights, weight_shapes
from recurra.engines.run import run_cell
from recurra.errors import OptionError, ShapeError, nearest, quoted
from recurra.layers.dropout import check_share
from recurra.layers.initial import Initialiser, constrained, fill, fill_constrained, kept_initialiser
from recurra.layers.names import encode_names, fit_names
from recurra.types import CellState, Float, Int


class Direction(nn.Module):
    """The weights of one cell of equations.

    - `W` `[GH, D]`, `b` `[GH]`: input weights and biases, H rows for each drive; `U` `[PH, H]`: recurrent weights, H rows for
      each matrix. `weight("W.n")`, `weight("b.n")`, `weight("U.n")` are the rows of one name.
    - `units`: per-unit parameters; where they are kept in an interval, what is stored is free and `unit_values` maps it in.
    - `initial`: the first state of each sequence, if it is learned; zero otherwise.
    """

    def __init__(
        self,
        cell: Cell,
        input_size: int,
        hidden_size: int,
        *,
        learn_initial: bool,
        bias: bool = True,
        weight_dropout: float = 0.0,
        init: Initialiser,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ):
        super().__init__()
        self.cell, self.input_size, self.hidden_size = cell, input_size, hidden_size
        self.text = text_of(cell)  # for operators: a compiled graph holds no cell
        self.weight_dropout = check_share("weight_dropout", weight_dropout)
        self.init = kept_initialiser(init)
        graph, H = cell.graph, hidden_size

        def empty(*shape: int) -> Tensor:
            return torch.empty(*shape, device=device, dtype=dtype)

        self.W = nn.Parameter(empty(len(graph.drives) * H, input_size))
        self.b: Tensor
        if bias:
            self.b = nn.Parameter(empty(len(graph.drives) * H))
        else:
            self.register_buffer("b", empty(len(graph.drives) * H), persistent=False)
        self.U = nn.Parameter(empty(len(graph.matrices) * H, H)) if graph.matrices else None
        self.units = nn.ParameterDict()
        for name, declared in graph.parameters.items():
            if isinstance(declared, Learned):
                self.units[name] = nn.Parameter(empty(H))
            else:
                self.register_buffer(f"fixed_{name}", empty(H), persistent=False)
        self.initial = nn.ParameterList(
            [nn.Parameter(empty(state.depth, H)) for state in graph.states] if learn_initial else []
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, init: Initialiser | None = None) -> None:
        """First values again, recurrent matrices by the layer's initialiser or by another one."""
        graph, H, init = self.cell.graph, self.hidden_size, init or self.init
        for k, name in enumerate(graph.drives):
            nn.init.xavier_uniform_(self.W[k * H : (k + 1) * H])
            if isinstance(self.b, nn.Parameter):
                self.b[k * H : (k + 1) * H] = graph.bias.get(name, 0.0)
        for k, name in enumerate(graph.matrices):
            assert self.U is not None
            matrix = self.U[k * H : (k + 1) * H]
            if name in graph.constraints:
                fill_constrained(matrix, graph.constraints[name])
            else:
                fill(matrix, init)
        for name, declared in graph.parameters.items():
            if isinstance(declared, Learned):
                self.units[name].copy_(_freed(spread(declared.value, H, self.cell.about(name)), declared))
        for first in self.initial:
            first.zero_()
        self._fill_constants()

    @torch.no_grad()
    def _fill_constants(self) -> None:
        """What no state dict holds, beside the weights: biases of a layer without any, and fixed per-unit parameters."""
        values = {} if isinstance(self.b, nn.Parameter) else {"b": torch.zeros_like(self.b, device="cpu")}
        for name, declared in self.cell.graph.parameters.items():
            if not isinstance(declared, Learned):
                values[f"fixed_{name}"] = spread(declared.value, self.hidden_size, self.cell.about(name))
        for name, value in values.items():
            setattr(self, name, value.to(self.W.device, self.W.dtype, copy=True))

    def rows(self, name: str) -> tuple[str, slice]:
        """Which packed weight a name such as `U.n` is of, and which rows of it."""
        packed, _, part = name.partition(".")
        known = {"W": self.cell.graph.drives, "b": self.cell.graph.drives, "U": self.cell.graph.matrices}
        if part not in known.get(packed, ()):
            names = [f"{each}.{own}" for each, parts in known.items() for own in parts]
            raise OptionError(f"cell {self.cell.name!r} has no weight {quoted(name)}.{nearest(name, names)}")
        k = known[packed].index(part)
        return packed, slice(k * self.hidden_size, (k + 1) * self.hidden_size)

    def weight(self, name: str) -> Tensor:
        """The rows of one name: `W.n` `[H, D]`, `b.n` `[H]` (both of x.n) or `U.n` `[H, H]`; a view of the packed weight."""
        packed, rows = self.rows(name)
        found: Tensor = getattr(self, packed)[rows]
        return found

    def get_extra_state(self) -> Tensor:
        """The names of the weights and a digest of the equations, for state dicts."""
        return encode_names(self.cell)

    def set_extra_state(self, state: Any) -> None:
        """Nothing is left to do: names are compared before the weights are loaded."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        fit_names(self.cell, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self._fill_constants()  # a layer that was made on the device "meta" has none

    def matrix(self, name: str) -> Float[Tensor, "H H"]:
        """The recurrent matrix of `U.NAME`, in the form that the cell keeps it in."""
        graph = self.cell.graph
        matrix = block(self.U, graph.matrices, [name], self.hidden_size)  # type: ignore[arg-type]
        return constrained(matrix, graph.constraints[name]) if name in graph.constraints else matrix

    def unit_values(self) -> dict[str, Float[Tensor, " H"]]:
        """The per-unit parameters as the equations read them."""
        return {
            name: _bounded(self.units[name], declared)
            if isinstance(declared, Learned)
            else getattr(self, f"fixed_{name}")
            for name, declared in self.cell.graph.parameters.items()
        }

    def recurrent_matrices(self) -> Float[Tensor, "PH H"]:
        U = self.U
        if U is None:
            return self.W.new_empty(0, self.hidden_size)
        if not self.cell.graph.constraints:
            return U
        return torch.cat([self.matrix(name) for name in self.cell.graph.matrices])

    def weights(self, T: int, B: int) -> Weights:
        """Everything that an engine needs for a run of T steps and B batch rows; masks are drawn here, once for all engines."""
        noise = {}
        for name, declared in self.cell.graph.noises.items():
            if self.training:
                shape = (T if declared.per == "step" else 1, B, self.hidden_size)
                noise[name] = torch.empty(shape, device=self.W.device, dtype=self.W.dtype).bernoulli_(declared.chance)
                noise[name] *= declared.scale
            else:
                noise[name] = self.W.new_full((1, 1, 1), declared.mean)
        matrices = self.recurrent_matrices()
        if self.training and self.weight_dropout:
            matrices = dropout(matrices, self.weight_dropout)
        expected = weight_shapes(self.cell.graph, self.input_size, self.hidden_size)
        found = self.W.shape, self.b.shape, matrices.shape
        if found != expected:  # put in from outside
            raise ShapeError(
                f"W, b and U of {self.cell.name} are {', '.join(str([*shape]) for shape in expected)} for inputs of size "
                f"{self.input_size} and {self.hidden_size} units; got {', '.join(str([*shape]) for shape in found)}."
            )
        return Weights(self.W, self.b, matrices, self.unit_values(), noise)

    def first_state(self, B: int) -> tuple[Float[Tensor, "_K B H"], ...]:
        if len(self.initial):
            return tuple(first[:, None].expand(-1, B, -1) for first in self.initial)
        return tuple(self.W.new_zeros(state.depth, B, self.hidden_size) for state in self.cell.graph.states)

    def forward(
        self,
        x: Float[Tensor, "T B D"],
        state: CellState | None,
        lengths: Int[Tensor, " B"] | None,
        engine: str,
        record: bool,
    ) -> tuple[Float[Tensor, "T B H"], CellState, dict[str, Tensor]]:
        """Outputs of each step, the final state, and (if asked for) every state and gate of each step."""
        T, B, _ = x.shape
        cell, on_cpu = self.cell, x.device.type == "cpu"
        quiet = torch.autocast("cpu", enabled=False) if on_cpu and torch.is_autocast_enabled("cpu") else nullcontext()
        with quiet:  # on a CPU every engine computes in the weights' dtype
            weights = self.weights(T, B)
            dtype = weights.W.dtype
            initial = self.first_state(B) if state is None else tuple(time_first(each.to(dtype)) for each in state)
            x = x.to(dtype) if on_cpu else x
            run = run_cell(engine, cell, self.text, weights, x, initial, lengths, record=record)
            recorded = self._record(weights, x, initial, run) if record else {}
        return run.outputs, tuple(map(batch_first, run.final)), recorded

    def _record(self, weights: Weights, x: Tensor, initial: tuple[Tensor, ...], run: Run) -> dict[str, Tensor]:
        """Gates are functions of the states and drives, so those of all steps are computed at once from what ran."""
        graph, T, H = self.cell.graph, len(x), self.hidden_size
        assert run.states is not None
        names = [state.name for state in graph.states]
        drives = linear(x, weights.W, weights.b).split(H, dim=-1)
        past = {name: torch.cat([first, after]) for name, first, after in zip(names, initial, run.states, strict=True)}

        def leaf(node: Node) -> Tensor:
            value: Tensor
            match node.kind:
                case "drive":
                    value = drives[graph.drives.index(node.name)]
                case "state":
                    start = len(past[node.name]) - T - node.delay
                    value = past[node.name][start : start + T]
                case "noise":
                    value = weights.noise[node.name].expand(T, -1, -1)
                case _:
                    value = weights.units[node.name]
            return value

        def product(name: str, v: Tensor) -> Tensor:
            return linear(v.to(weights.U.dtype), block(weights.U, graph.matrices, [name], H))

        values = evaluate(graph.gates.values(), leaf, product)
        gates = {
            name: torch.as_tensor(values[node]).to(run.outputs).expand_as(run.outputs)
            for name, node in graph.gates.items()
        }
        return {**dict(zip(names, run.states, strict=True)), **gates}

    def extra_repr(self) -> str:
        return f"{self.cell.name}, {self.input_size}, {self.hidden_size}"


def _freed(value: Tensor, declared: Learned) -> Tensor:
    """The free number that `_bounded` maps to `value`."""
    low, high = declared.low, declared.high
    if low is not None and high is not None:
        return torch.logit((value - low) / (high - low))
    if low is not None:
        return _inverse_softplus(value - low)
    if high is not None:
        return _inverse_softplus(high - value)
    return value


def _inverse_softplus(v: Tensor) -> Tensor:
    return v + torch.log(-torch.expm1(-v))  # log(exp(v) - 1) without the overflow


def _bounded(free: Tensor, declared: Learned) -> Tensor:
    """A free number brought into the interval of a per-unit parameter."""
    low, high = declared.low, declared.high
    if low is not None and high is not None:
        return low + (high - low) * torch.sigmoid(free)
    if low is not None:
        return low + softplus(free)
    if high is not None:
        return high - softplus(free)
    return free


def time_first(state: Tensor) -> Float[Tensor, "K B H"]:
    return state[None] if state.ndim == 2 else state.transpose(0, 1)


def batch_first(state: Float[Tensor, "K B H"]) -> Tensor:
    return state[0] if state.shape[0] == 1 else state.transpose(0, 1)
