"""`Recurrent`: layers of any cell, in one direction or two, on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import PackedSequence

from recurra.cells.catalogue import find_cell
from recurra.cells.notation import Cell
from recurra.data.transfer import send
from recurra.engines.choose import Choice, check_engine_name, computed_dtype, explain
from recurra.errors import OptionError, ShapeError, choose_from, listed, quoted
from recurra.layers.bidirectional import MERGES, reverse, to_back, to_front
from recurra.layers.direction import Direction, batch_first
from recurra.layers.dropout import VariationalDropout
from recurra.layers.initial import Initialiser, find_initialiser
from recurra.layers.named_weights import Held, OfRows
from recurra.layers.quick import run_quickly
from recurra.layers.states import replace_rows
from recurra.types import CellState, Float, Int, Shape, State, Trace

_MIXED = (torch.float32, torch.bfloat16, torch.float16)
"""What autocast and mixed precision make of one another: a state in one of them is taken by weights in another."""

One = TypeVar("One")


class Recurrent(nn.Module):
    """One or more layers of a cell, run through time. Inputs are batch first: `[B, T, D]`.

    - `cell`: a cell, or its name (`"lstm"`, `"skip(d=8)"`, `"FILE.py:NAME"`, `"FILE.json"`); a list has one for each layer.
    - `input_size`, `hidden_size`: D and H; a list of hidden sizes has one for each layer.
    - `layers`: how many are stacked; each reads the outputs of the one below. A list of cells or sizes says it too.
    - `bidirectional`: each layer also runs from the true end of each sequence; `merge` (`concat`, `sum`, `mean`, `mul`) makes
      one output of the two directions'.
    - `residual`: from the second layer on, a layer's input is added to its output.
    - `dropout`: between layers, one mask for all of time (variational). `weight_dropout`: of recurrent weights, one mask for
      all of time and all batch rows (Merity et al. 2018).
    - `bias`: the drives W x + b have a bias; without, they are W x alone.
    - `learn_initial`: the state before the first step is a parameter; otherwise it is zero.
    - `init`: first values of recurrent matrices: `orthogonal`, `xavier`, `uniform`, `identity`, `spectral_radius(0.9)`, or a
      function of your own that fills a matrix in place.
    - `engine`: `auto`, or the name of one.

    Parameters of layer k in direction d, with G drives `x.NAME` and P matrices `U.NAME` (`layers.K.D` in a state dict, which also
    keeps their names and loads by them):

    - `layers.K.D.W` `[G·H, D]`, `layers.K.D.b` `[G·H]`, `layers.K.D.U` `[P·H, H]`: H rows for each name, in the order in which
      the equations first use them; `weight("U.n", layer=K)` gives the rows of one. D of a higher layer is what the one below
      gives.
    - `layers.K.D.units.NAME` `[H]`: learned per-unit parameters. `layers.K.D.initial.I` `[depth, H]`: with `learn_initial`.

    ```python
    layer = rc.Recurrent("lstm", input_size=8, hidden_size=16, layers=2)
    trace = layer(torch.randn(4, 20, 8), lengths=torch.tensor([20, 7, 13, 1]))
    trace.outputs.shape         # [4, 20, 16]
    h, c = trace.final[-1][0]   # last layer, first direction: the state at each sequence's true end
    rc.Recurrent("lstm", 400, [1152, 1152, 400]).hidden_sizes
    ```
    """

    def __init__(
        self,
        cell: Cell | str | Sequence[Cell | str],
        input_size: int,
        hidden_size: int | Sequence[int],
        *,
        layers: int = 1,
        bidirectional: bool = False,
        merge: str = "concat",
        residual: bool = False,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        learn_initial: bool = False,
        bias: bool = True,
        engine: str = "auto",
        init: str | Initialiser = "orthogonal",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        cells, sizes = _by_layer(cell, hidden_size, _whole("layers", layers))
        self.input_size = _whole("input_size", input_size)
        self.merge, self.residual, self.engine = (
            choose_from("merge", merge, MERGES),
            residual,
            check_engine_name(engine),
        )
        self.dropout = VariationalDropout(dropout)
        initialiser = find_initialiser(init)
        directions = 2 if bidirectional else 1
        wide = 2 if bidirectional and merge == "concat" else 1
        self.output_size = sizes[-1] * wide
        if residual and len(set(sizes)) > 1:
            raise OptionError(
                f"residual adds a layer's input to its output, which needs equal sizes; hidden_size has {listed(sizes)}. "
                "Make them equal, or leave residual out."
            )
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Direction(
                    cells[k],
                    sizes[k - 1] * wide if k else self.input_size,
                    size,
                    learn_initial=learn_initial,
                    bias=bias,
                    weight_dropout=weight_dropout,
                    init=initialiser,
                    device=device,
                    dtype=dtype,
                )
                for _ in range(directions)
            )
            for k, size in enumerate(sizes)
        )

    @classmethod
    def from_torch(cls, module: nn.LSTM | nn.GRU | nn.RNN, engine: str = "auto") -> Recurrent:
        """The same network as a `torch.nn` layer, with its weights."""
        from recurra.layers.convert import from_torch

        return from_torch(module, engine)

    def to_torch(self) -> nn.LSTM | nn.GRU | nn.RNN:
        """The same network as a `torch.nn` layer (batch first), if torch has one for this cell."""
        from recurra.layers.convert import to_torch

        return to_torch(self)

    @property
    def stack(self) -> list[list[Direction]]:
        """`stack[layer][direction]`: the weights, layer by layer."""
        layers = cast(Iterable[Direction], self.layers._modules.values())
        return [list(cast(Iterable[Direction], layer._modules.values())) for layer in layers]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of each layer."""
        return tuple(directions[0].cell for directions in self.stack)

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """H of each layer."""
        return tuple(directions[0].hidden_size for directions in self.stack)

    @property
    def cell(self) -> Cell:
        """The cell of all layers; an error where they have several."""
        return _the_one("cell", self.cells, [each.name for each in self.cells])

    @property
    def hidden_size(self) -> int:
        """H of all layers; an error where they have several."""
        return _the_one("hidden_size", self.hidden_sizes, self.hidden_sizes)

    def weight(self, name: str, *, layer: int = 0, direction: int = 0) -> Tensor:
        """The weights of one name: `"W.n"` `[H, D]` and `"b.n"` `[H]` of the drive x.n, `"U.n"` `[H, H]` of the product U.n.

        It is a view of the packed parameter: fill it under `torch.no_grad()`, or put it into a loss.

        ```python
        layer = rc.Recurrent("lstm", 8, 16)
        with torch.no_grad():
            layer.weight("b.f").fill_(1.0)
        penalty = layer.weight("U.f").square().sum()
        ```
        """
        return self._direction(layer, direction).weight(name)

    def parametrize(self, name: str, by: nn.Module, *, layer: int = 0, direction: int = 0) -> None:
        """Make the weights of one name a function of free ones: `torch.nn.utils.parametrize` for a part of a packed parameter.

        ```python
        class Symmetric(torch.nn.Module):
            def forward(self, matrix):
                return (matrix + matrix.mT) / 2

        layer = rc.Recurrent("gru", 8, 16)
        layer.parametrize("U.n", Symmetric())
        ```
        """
        chosen = self._direction(layer, direction)
        packed, rows = chosen.rows(name)
        if packed == "b" and not isinstance(chosen.b, nn.Parameter) and not parametrize.is_parametrized(chosen, "b"):
            raise OptionError(f"{quoted(name)} cannot be parametrized: the layer was made with bias=False.")
        parametrize.register_parametrization(chosen, packed, OfRows(rows, by))

    def freeze(self, *names: str, layer: int = 0, direction: int = 0) -> None:
        """Hold the weights of these names as they are now: no gradient, no weight decay, no momentum moves them.

        A whole parameter is frozen as everywhere in torch, by `requires_grad_(False)`. To train them again, use
        `torch.nn.utils.parametrize.remove_parametrizations(layer.stack[0][0], "U")`.

        ```python
        layer = rc.Recurrent("gru", 8, 16)
        layer.freeze("W.z", "U.z", "b.z")
        ```
        """
        for name in names:
            self.parametrize(
                name, Held(self.weight(name, layer=layer, direction=direction)), layer=layer, direction=direction
            )

    def _direction(self, layer: int, direction: int) -> Direction:
        stack = self.stack
        if not 0 <= layer < len(stack) or not 0 <= direction < len(stack[0]):
            raise OptionError(
                f"there is no layer={layer}, direction={direction} in {len(stack)} layer(s) and {len(stack[0])} direction(s)."
            )
        return stack[layer][direction]

    @property
    def bidirectional(self) -> bool:
        """Whether it reads from both ends."""
        return len(cast(nn.ModuleList, self.layers[0])) == 2

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        state: State | None = None,
        lengths: Int[Tensor, " B"] | Sequence[int] | None = None,
        *,
        padding: str = "end",
        record: bool = False,
    ) -> Trace:
        """Run sequences through all layers.

        - `state`: where to start, as `trace.final` of an earlier call gives it; the initial state otherwise.
        - `lengths`: the true length of each sequence, 0 to T. What lies past it changes nothing; outputs there are zero.
        - `padding`: `end`, or `start` for sequences that are aligned to the last step.
        - `record`: also give every state and every named gate at every step.
        """
        if lengths is None and not record and padding == "end":
            quick = run_quickly(self, x, 3, state)
            if quick is not None:
                return Trace(*quick)
        stack = self.stack
        self._check_input(x, 3, stack[0][0])
        B, T, _ = x.shape
        if padding not in ("end", "start"):
            choose_from("padding", padding, ("end", "start"))
        lengths = self._check_lengths(lengths, B, T, x.device)
        self._check_state(state, B)

        y = x.transpose(0, 1)
        inside = None
        if lengths is not None:
            y = to_front(y, lengths) if padding == "start" else y
            inside = (torch.arange(T, device=x.device)[:, None] < lengths)[:, :, None]

        def ended(values: Tensor) -> Tensor:
            """Zeros past the end of each sequence."""
            return values if inside is None else torch.where(inside, values, 0)

        y = ended(y)
        final, records = [], []
        for k, layer in enumerate(stack):
            inputs = self.dropout(y) if k else y
            outputs, lasts, gates = self._run_layer(layer, inputs, state[k] if state else None, lengths, record)
            y = outputs + y if self.residual and k else outputs
            y = ended(y)
            final.append(lasts)
            records.append(gates)

        def users(values: Tensor) -> Tensor:
            if padding == "start" and lengths is not None:
                values = to_back(values, lengths)
            return values.transpose(0, 1)

        recorded = (
            tuple(tuple({n: users(ended(v)) for n, v in one.items()} for one in each) for each in records)
            if record
            else None
        )
        return Trace(users(y), tuple(final), recorded)

    def _run_layer(
        self,
        directions: Sequence[Direction],
        x: Tensor,
        state: tuple[CellState, ...] | None,
        lengths: Tensor | None,
        record: bool,
    ) -> tuple[Tensor, tuple[CellState, ...], tuple[dict[str, Tensor], ...]]:
        """One layer, time first: the merged outputs, and the final state and record of each direction."""
        outputs, finals, records = [], [], []
        for d, direction in enumerate(directions):
            values, final, gates = direction(
                reverse(x, lengths) if d else x, state[d] if state else None, lengths, self.engine, record
            )
            outputs.append(reverse(values, lengths) if d else values)
            finals.append(final)
            records.append({name: reverse(gate, lengths) if d else gate for name, gate in gates.items()})
        merged = MERGES[self.merge](*outputs) if len(outputs) == 2 else outputs[0]
        return merged, tuple(finals), tuple(records)

    def step(self, x: Float[Tensor, "B D"], state: State | None = None) -> tuple[Float[Tensor, "B H"], State]:
        """One step of a stream: the output and the state to pass to the next call. Equals the sequence call."""
        quick = run_quickly(self, x, 2, state)
        if quick is not None:
            return quick
        if self.bidirectional:
            raise OptionError(
                "step streams forward in time; a bidirectional layer needs the whole sequence. Call the layer instead."
            )
        self._check_input(x, 2, self.stack[0][0])
        trace = self(x[:, None], state)
        return trace.outputs[:, 0], trace.final

    def initial_state(self, batch_size: int) -> State:
        """The state before the first step, e.g. to change parts of it and pass it in."""
        return tuple(
            tuple(tuple(batch_first(first) for first in each.first_state(batch_size)) for each in layer)
            for layer in self.stack
        )

    def reset(self, state: State, rows: Tensor | Sequence[bool] | Sequence[int]) -> State:
        """The state, with some batch rows back at the initial state: streams that begin anew while the others go on.

        - `rows`: which ones, true or false for each, or their numbers.

        ```python
        layer = rc.Recurrent("gru", 3, 8)
        state = layer.reset(layer(torch.randn(4, 10, 3)).final, [0, 2])
        ```
        """
        device = state[0][0][0].device
        B, chosen = len(state[0][0][0]), torch.as_tensor(rows, device=device)
        if chosen.dtype != torch.bool:
            if chosen.numel() and (chosen.is_floating_point() or int(chosen.min()) < -B or int(chosen.max()) >= B):
                raise ShapeError(
                    f"rows must be numbers of batch rows below {B}, or {B} of true and false; got {quoted(rows)}."
                )
            numbers = chosen.to(torch.int64)
            chosen = torch.zeros(B, dtype=torch.bool, device=device)
            chosen[numbers] = True
        if list(chosen.shape) != [B]:
            raise ShapeError(
                f"rows must be one of true and false for each of {B} batch rows; got {list(chosen.shape)}."
            )
        return replace_rows(state, self.initial_state(B), chosen)

    def explain(self, batch_size: int = 1, length: int = 128, *, layer: int = 0, record: bool = False) -> Choice:
        """Which engine runs a layer at that size, in the dtype that is computed in here, and why not the others. Print it."""
        chosen = self._direction(layer, 0)
        shape, device = Shape(batch_size, length, chosen.input_size, chosen.hidden_size), chosen.W.device
        return explain(self.engine, chosen.cell, device, computed_dtype(device, chosen.W.dtype), shape, record=record)

    def extra_repr(self) -> str:
        cells, sizes = ([each.name for each in self.cells], list(self.hidden_sizes))
        parts = [each[0] if len(set(each)) == 1 else each for each in (cells, sizes)]
        return f"{parts[0]}, {self.input_size}, {parts[1]}, engine={self.engine!r}"

    def _check_input(self, x: Any, axes: int, first: Direction) -> None:
        name, W = first.cell.name, first.W
        dtype, device = W.dtype, W.device
        names = "[B, T, D]" if axes == 3 else "[B, D]"
        if isinstance(x, PackedSequence):
            raise ShapeError(
                f"{name} expects inputs {names}; got a PackedSequence. Pass the padded tensor and lengths=: "
                "x, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)."
            )
        if not isinstance(x, Tensor):
            raise ShapeError(
                f"{name} expects inputs {names} as a tensor; got {type(x).__name__}. Convert it with torch.as_tensor(x, "
                f"dtype={dtype})."
            )
        if x.ndim != axes or (axes == 3 and x.shape[1] == 0):
            raise ShapeError(f"{name} expects inputs {names} with at least one step; got {list(x.shape)}.")
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name} expects inputs of size {self.input_size} (input_size); got {list(x.shape)}. "
                f"Pass input_size={x.shape[-1]} or project first."
            )
        if x.dtype != dtype and not (x.is_floating_point() and torch.is_autocast_enabled(device.type)):
            raise ShapeError(
                f"{name} has weights in {dtype}; got inputs in {x.dtype}. Convert one of them with .to(...)."
            )
        if x.device != device:
            raise ShapeError(
                f"{name} has its weights on {device}; got inputs on {x.device}. Move one of them with .to(...)."
            )

    def _check_lengths(
        self, lengths: Tensor | Sequence[int] | None, B: int, T: int, device: torch.device
    ) -> Tensor | None:
        if lengths is None:
            return None
        if not isinstance(lengths, Tensor):
            lengths = torch.tensor(lengths, dtype=None if len(lengths) else torch.int64, device="cpu")
        if lengths.ndim != 1 or len(lengths) != B or lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
            raise ShapeError(
                f"lengths must be {B} whole numbers, one for each sequence; got {list(lengths.shape)} of {lengths.dtype}."
            )
        if not torch.compiler.is_compiling():  # a graph has no branches on values: its operators check when they run
            low, high = (int(lengths.min()), int(lengths.max())) if B else (0, 0)
            if low < 0 or high > T:
                raise ShapeError(f"lengths must lie between 0 and T = {T}; got {low} to {high}.")
        return send(lengths.to(torch.int64), device)

    def _check_state(self, state: State | None, B: int) -> None:
        if state is None:
            return
        stack = self.stack
        remedy = "Pass trace.final of an earlier call, or initial_state(batch_size)."
        if len(state) != len(stack) or any(len(layer) != len(stack[0]) for layer in state):
            raise ShapeError(
                f"state must be state[layer][direction][i] with {len(stack)} layer(s) and {len(stack[0])} direction(s). {remedy}"
            )
        for layer, directions in zip(state, stack, strict=True):
            for given, direction in zip(layer, directions, strict=True):
                _check_cell_state(given, direction, B, remedy)


def _check_cell_state(given: Any, direction: Direction, B: int, remedy: str) -> None:
    name, states, W = direction.cell.name, direction.cell.graph.states, direction.W
    if not isinstance(given, tuple | list) or len(given) != len(states):
        raise ShapeError(
            f"{name} has {len(states)} state(s) ({', '.join(s.name for s in states)}) for each layer and direction, as a tuple. "
            f"{remedy}"
        )
    for known, value in zip(states, given, strict=True):
        H = direction.hidden_size
        wanted = [B, H] if known.depth == 1 else [B, known.depth, H]
        fits = value.dtype == W.dtype or (value.dtype in _MIXED and W.dtype in _MIXED)
        if not fits or value.device != W.device:
            raise ShapeError(
                f"state {known.name!r} of {name} is {value.dtype} on {value.device}; the weights are {W.dtype} on {W.device}. "
                "Convert it with .to(...)."
            )
        if list(value.shape) != wanted:
            raise ShapeError(f"state {known.name!r} of {name} must be {wanted}; got {list(value.shape)}. {remedy}")


def _by_layer(cell: Any, hidden_size: Any, layers: int) -> tuple[list[Cell], list[int]]:
    """The cell and the size of each layer."""
    lists = {"cell": cell, "hidden_size": hidden_size}
    found = {
        name: list(each) for name, each in lists.items() if isinstance(each, Sequence) and not isinstance(each, str)
    }
    counts = {name: len(each) for name, each in found.items()} | ({"layers": layers} if layers > 1 or not found else {})
    if len(set(counts.values())) > 1 or 0 in counts.values():
        said = ", ".join(
            f"{name} has {count}" if name != "layers" else f"layers={count}" for name, count in counts.items()
        )
        raise OptionError(
            f"every layer has one cell and one size, but {said}. Give lists of one length, and leave layers out."
        )
    count = next(iter(counts.values()))
    cells = [_one_cell(each) for each in found.get("cell", [cell])]
    sizes = [_whole("hidden_size", each) for each in found.get("hidden_size", [hidden_size])]
    return cells * (count // len(cells)), sizes * (count // len(sizes))


def _one_cell(cell: Any) -> Cell:
    if not isinstance(cell, (Cell, str)):
        raise OptionError(f"cell must be a cell or the name of one, not {cell!r}. Decorate your function with @cell.")
    return find_cell(cell) if isinstance(cell, str) else cell


def _whole(name: str, size: Any) -> int:
    try:
        found = index(size)
    except TypeError:
        raise OptionError(f"{name} must be a whole number; got {quoted(size)}.") from None
    if found < 1:
        raise OptionError(f"{name} must be at least 1; got {size}.")
    return found


def _the_one(name: str, values: Sequence[One], shown: Sequence[object]) -> One:
    if any(value != values[0] for value in values):
        raise OptionError(
            f"these layers have {name} {listed(shown)}, and one for all of them was asked for. Read {name}s; what comes out has "
            "output_size."
        )
    return values[0]
