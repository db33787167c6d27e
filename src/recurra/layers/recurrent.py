"""`Recurrent`: layers of any cell, in one direction or two, on any engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from recurra.cells.catalogue import find_cell
from recurra.cells.notation import Cell
from recurra.data.transfer import send
from recurra.engines.choose import Choice, check_engine_name, explain
from recurra.errors import OptionError, ShapeError, choose_from
from recurra.layers.bidirectional import MERGES, reverse, to_back, to_front
from recurra.layers.direction import Direction, batch_first
from recurra.layers.dropout import VariationalDropout
from recurra.layers.initial import Initialiser, find_initialiser
from recurra.types import CellState, Float, Int, Shape, State, Trace


class Recurrent(nn.Module):
    """One or more layers of a cell, run through time.

    - `cell`: a cell, or its name (`"lstm"`, `"skip(d=8)"`, `"FILE.py:NAME"`, `"FILE.json"`).
    - `input_size`, `hidden_size`: D and H.
    - `layers`: how many are stacked; each reads the outputs of the one below.
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

    ```python
    layer = rc.Recurrent("lstm", input_size=8, hidden_size=16, layers=2)
    trace = layer(torch.randn(4, 20, 8), lengths=torch.tensor([20, 7, 13, 1]))
    trace.outputs.shape         # [4, 20, 16]
    h, c = trace.final[-1][0]   # last layer, first direction: the state at each sequence's true end
    ```
    """

    def __init__(
        self,
        cell: Cell | str,
        input_size: int,
        hidden_size: int,
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
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("layers", layers)):
            if size < 1:
                raise OptionError(f"{name} must be at least 1; got {size}.")
        if not isinstance(cell, (Cell, str)):
            raise OptionError(
                f"cell must be a cell or the name of one, not {cell!r}. Decorate your function with @cell."
            )
        self.cell = find_cell(cell) if isinstance(cell, str) else cell
        self.input_size, self.hidden_size = input_size, hidden_size
        self.merge, self.residual, self.engine = (
            choose_from("merge", merge, MERGES),
            residual,
            check_engine_name(engine),
        )
        self.dropout = VariationalDropout(dropout)
        initialiser = find_initialiser(init)
        directions = 2 if bidirectional else 1
        self.output_size = hidden_size * (2 if bidirectional and merge == "concat" else 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                Direction(
                    self.cell,
                    input_size if k == 0 else self.output_size,
                    hidden_size,
                    learn_initial=learn_initial,
                    bias=bias,
                    weight_dropout=weight_dropout,
                    init=initialiser,
                    device=device,
                    dtype=dtype,
                )
                for _ in range(directions)
            )
            for k in range(layers)
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
        layers = cast(Iterable[Iterable[Direction]], self.layers)
        return [list(layer) for layer in layers]

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
        stack = self.stack
        self._check_input(x, 3, stack[0][0].W)
        B, T, _ = x.shape
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
        if self.bidirectional:
            raise OptionError(
                "step streams forward in time; a bidirectional layer needs the whole sequence. Call the layer instead."
            )
        self._check_input(x, 2, self.stack[0][0].W)
        trace = self(x[:, None], state)
        return trace.outputs[:, 0], trace.final

    def initial_state(self, batch_size: int) -> State:
        """The state before the first step, e.g. to change parts of it and pass it in."""
        return tuple(
            tuple(tuple(batch_first(first) for first in each.first_state(batch_size)) for each in layer)
            for layer in self.stack
        )

    def explain(self, batch_size: int = 1, length: int = 128, *, record: bool = False) -> Choice:
        """Which engine runs this layer at that size, and why not the others. Print it."""
        first = self.stack[0][0]
        shape = Shape(batch_size, length, self.input_size, self.hidden_size)
        return explain(self.engine, self.cell, first.W.device, first.W.dtype, shape, record=record)

    def extra_repr(self) -> str:
        return f"{self.cell.name}, {self.input_size}, {self.hidden_size}, engine={self.engine!r}"

    def _check_input(self, x: Tensor, axes: int, weights: Tensor) -> None:
        dtype, device = weights.dtype, weights.device
        if x.ndim != axes or x.numel() == 0:
            names = "[B, T, D]" if axes == 3 else "[B, D]"
            raise ShapeError(f"{self.cell.name} expects inputs {names} with at least one of each; got {list(x.shape)}.")
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self.cell.name} expects inputs of size {self.input_size} (input_size); got {list(x.shape)}. "
                f"Pass input_size={x.shape[-1]} or project first."
            )
        if x.dtype != dtype and not torch.is_autocast_enabled(device.type):
            raise ShapeError(
                f"{self.cell.name} has weights in {dtype}; got inputs in {x.dtype}. Convert one of them with .to(...)."
            )
        if x.device != device:
            raise ShapeError(
                f"{self.cell.name} has its weights on {device}; got inputs on {x.device}. Move one of them with .to(...)."
            )

    def _check_lengths(
        self, lengths: Tensor | Sequence[int] | None, B: int, T: int, device: torch.device
    ) -> Tensor | None:
        if lengths is None:
            return None
        lengths = torch.as_tensor(lengths)
        if lengths.ndim != 1 or len(lengths) != B or lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
            raise ShapeError(
                f"lengths must be {B} whole numbers, one for each sequence; got {list(lengths.shape)} of {lengths.dtype}."
            )
        low, high = int(lengths.min()), int(lengths.max())
        if low < 0 or high > T:
            raise ShapeError(f"lengths must lie between 0 and T = {T}; got {low} to {high}.")
        return send(lengths.to(torch.int64), device)

    def _check_state(self, state: State | None, B: int) -> None:
        if state is None:
            return
        directions = len(self.stack[0])
        states = self.cell.graph.states
        remedy = "Pass trace.final of an earlier call, or initial_state(batch_size)."
        if len(state) != len(self.layers) or any(len(layer) != directions for layer in state):
            raise ShapeError(
                f"state must be state[layer][direction][i] with {len(self.layers)} layer(s) and {directions} direction(s). "
                f"{remedy}"
            )
        for layer in state:
            for direction in layer:
                if not isinstance(direction, tuple | list) or len(direction) != len(states):
                    raise ShapeError(
                        f"{self.cell.name} has {len(states)} state(s) ({', '.join(s.name for s in states)}) for each layer and "
                        f"direction, as a tuple. {remedy}"
                    )
                for known, given in zip(states, direction, strict=True):
                    wanted = [B, self.hidden_size] if known.depth == 1 else [B, known.depth, self.hidden_size]
                    if given.dtype != self.stack[0][0].W.dtype or given.device != self.stack[0][0].W.device:
                        raise ShapeError(
                            f"state {known.name!r} of {self.cell.name} is {given.dtype} on {given.device}; the weights are "
                            f"{self.stack[0][0].W.dtype} on {self.stack[0][0].W.device}. Convert it with .to(...)."
                        )
                    if list(given.shape) != wanted:
                        raise ShapeError(
                            f"state {known.name!r} of {self.cell.name} must be {wanted}; got {list(given.shape)}. {remedy}"
                        )
