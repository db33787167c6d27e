"""The generated GPU kernels, loaded and run: all steps of a sequence in one launch forward and one backward."""

from __future__ import annotations

import hashlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recurra.cells.graph import Graph, block
from recurra.cells.notation import Cell
from recurra.engines.eager import last_values, run_eagerly
from recurra.engines.fused import budget, cuda, nvrtc, triton
from recurra.engines.fused.cache import cache_folder, read_text, write_file
from recurra.engines.fused.gpu_kernel import Source, Tiles, awaited_states, exchanged_rows, state_argument
from recurra.engines.fused.sequence import arriving_gradients, as_run, whole_masks
from recurra.engines.fused.stages import Plan
from recurra.engines.fused.stages import plan as make_plan
from recurra.engines.fused.tiles import choose_tiles, choose_triton, in_words, multiprocessors, rows_at_once
from recurra.engines.fused.triton import TYPES, padded
from recurra.engines.protocol import Run, Support, Weights, differentiate, needs_other_derivatives, no
from recurra.errors import EngineError
from recurra.types import Float, Int, Shape

STORED = {getattr(torch, name): name for name in TYPES}
"""The dtypes in which sequences are stored; sums and states are always float32."""
DEEPEST = 64
"""Steps back: each is a tile of registers in the backward run."""
_SIGNED = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
_BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.uint16, torch.float32: torch.uint32}


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """What a run has besides tensors with gradients. Those are x, W, b, U, per-unit parameters and, unless they are zero, initial
    states. Subclasses say which kernels run forward and backward."""

    cell: Cell
    plan: Plan
    masks: dict[str, Tensor]
    lengths: Tensor | None
    record: bool
    dtype: torch.dtype

    @cached_property
    def depths(self) -> tuple[int, ...]:
        return tuple(state.depth for state in self.cell.graph.states)

    def run(
        self, weights: Weights, x: Float[Tensor, "T B D"], initial: Sequence[Float[Tensor, "_K B H"]]
    ) -> Sequence[Tensor]:
        """The values of every state at each step, or of the first alone, then the final values of all."""
        units = (weights.units[name] for name in self.cell.graph.parameters)
        tensors = (x, weights.W, weights.b, weights.U, *units, *initial)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            results: Sequence[Tensor] = _Sequence.apply(self, *tensors)  # type: ignore[no-untyped-call]
            return results
        return self.forward(tensors, keep=False)[0]

    @abstractmethod
    def forward(self, tensors: Sequence[Tensor], *, keep: bool) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The results, and what the backward run needs besides the tensors: the input as rows, the tape, the values of per-unit
        parameters, the states, and what else a subclass likes to keep."""

    @abstractmethod
    def backward(
        self, tensors: Sequence[Tensor], kept: Sequence[Tensor], grads: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of the tensors that are wanted."""

    # -- what both have in common ------------------------------------------------------------------------------------

    def tape(self, stored: Float[Tensor, "TB D"], W: Tensor, H: int) -> Float[Tensor, "TB KH"]:
        """The drives without their biases, and room for what else the forward run keeps."""
        drives = linear(stored, stored_as(W, self.dtype))
        if self.plan.slots * H == drives.shape[1]:
            return drives
        tape = drives.new_empty(len(drives), self.plan.slots * H)
        tape[:, : drives.shape[1]] = drives
        return tape

    def common(self, T: int, B: int, tape: Tensor, bias: Tensor, units: Iterable[Tensor]) -> dict[str, Any]:
        """The arguments of all functions."""
        given = {"T": T, "B": B, "nought": 0, "lengths": self.lengths, "tape": tape, "bias": aligned(bias)}
        own = {f"p_{name}": value for name, value in zip(self.plan.graph.parameters, units, strict=True)}
        return {**given, **own, **_mask_arguments(self.masks)}

    def units(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The per-unit parameters of the graph with folded constants, in float32: they would not survive 16 bits."""
        names = self.cell.graph.parameters
        if not names:
            return []
        own = dict(zip(names, tensors[4:], strict=False))
        return [aligned(each.float()) for each in self.plan.folded.units(own).values()]

    def initial(self, tensors: Sequence[Tensor]) -> list[Tensor | None]:
        """The first states as kernels in CUDA C++ read them: in the dtype of biases; none where they are zero."""
        given = tensors[4 + len(self.cell.graph.parameters) :]
        return [aligned(stored_as(each, tensors[2].dtype)) for each in given] or [None] * len(self.plan.graph.states)

    def first_gradients(
        self, B: int, H: int, device: torch.device, wanted: Sequence[bool], *, every: bool = False
    ) -> list[Tensor | None]:
        """Where the gradients of initial states go: of those that are wanted, or of every one."""
        count = len(self.plan.graph.states)
        asked = [True] * count if every else wanted[4 + len(self.cell.graph.parameters) :] or [False] * count
        return [
            torch.empty(state.depth, B, H, device=device) if want else None
            for state, want in zip(self.plan.graph.states, asked, strict=True)
        ]

    def arriving(self, grads: Sequence[Tensor | None]) -> dict[str, Any]:
        """The arguments for what arrives from outside: at each step, and at the final values."""
        graph = self.plan.graph
        arriving, final = arriving_gradients(grads, len(graph.states), record=self.record)
        arriving = [None if each is None else in_pairs(each) for each in arriving]
        given = named(graph, arriving, "arriving")
        given |= named(graph, (0 if each is None else each.stride(0) for each in arriving), "per_step")
        given |= named(graph, (0 if each is None else each.stride(1) for each in arriving), "per_row")
        return given | named(graph, (None if each is None else aligned(each) for each in final), "final")

    def gradients(
        self,
        tensors: Sequence[Tensor],
        wanted: Sequence[bool],
        rows: tuple[Tensor, Tensor],
        dU: Tensor | None,
        sums: Tensor,
        first: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        """Those of all tensors, from `rows` (the adjoints of the drives, and the input), from the parts of `sums` over time (of
        biases, then of parameters), and from those of the initial states. That of x comes as rows."""
        drives, stored = rows
        graph, names = self.plan.graph, self.cell.graph.parameters
        totals = sums[0] if len(sums) == 1 else sums.sum(0)
        G, count = len(graph.drives), 4 + len(names)
        units: list[Tensor | None] = [*totals[G:]] if names else []
        if self.plan.folded.made:
            units = differentiate(
                lambda *given: [*self.plan.folded.units(dict(zip(names, given, strict=True))).values()],
                tensors[4:count],
                units,
                wanted[4:count],
            )
        made = [
            drives @ stored_as(tensors[1], self.dtype) if wanted[0] else None,
            drives.t() @ stored if wanted[1] else None,
            totals[:G].flatten() if wanted[2] else None,
            dU,
            *units,
            *first,
        ]
        return [
            None if value is None else stored_as(value, tensor.dtype)
            for value, tensor in zip(made, tensors, strict=False)  # zero initial states have no tensors
        ]


class _Sequence(torch.autograd.Function):
    """All steps at once. Inputs after the task: the tensors of `Task`."""

    @staticmethod
    def forward(ctx: Any, task: Task, *tensors: Tensor) -> tuple[Tensor, ...]:
        results, kept = task.forward(tensors, keep=True)
        ctx.task = task
        ctx.save_for_backward(*tensors, *kept)
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: Task = ctx.task
        wanted, saved = ctx.needs_input_grad[1:], ctx.saved_tensors
        tensors, kept = saved[: len(wanted)], saved[len(wanted) :]
        if needs_other_derivatives(grads):

            def again(*given: Tensor) -> list[Tensor]:
                if len(given) == 4 + len(task.cell.graph.parameters):
                    given = (*given, *zero_states(task.cell.graph, given[0].shape[1], given[3]))
                return run_eagerly(task.cell, task.masks, task.lengths, given, record=task.record)

            return (None, *differentiate(again, tensors, grads, wanted, create_graph=True))
        return (None, *task.backward(tensors, kept, grads, wanted))


def zero_states(graph: Graph, B: int, U: Float[Tensor, "_PH H"]) -> list[Float[Tensor, "_K B H"]]:
    return [U.new_zeros(state.depth, B, U.shape[1]) for state in graph.states]


@lru_cache(maxsize=64)
def lacks(device: torch.device, dtype: torch.dtype) -> str:
    """What kernels need, whoever compiles them, and have not here; empty where they have it all."""
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "its GPU kernels need a device of compute capability 8.0 or later"
    return "" if dtype in STORED else f"its GPU kernels store {', '.join(STORED.values())}, not {dtype}"


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    return find_spec("triton") is not None


def supports(cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> Support:
    if not _has_triton():
        return no("its GPU kernels are compiled by Triton, which is not installed")
    if lacks(device, dtype):
        return no(lacks(device, dtype))
    deepest = max(state.depth for state in cell.graph.states)
    if deepest > DEEPEST:
        return no(f"its GPU kernels look back at most {DEEPEST} steps; {cell.name} looks back {deepest}")
    if 64 * multiprocessors(device) < shape.H:
        return no(f"its GPU kernels take at most {64 * multiprocessors(device)} units here")
    return Support(True, how=in_words(make_plan(cell.graph), shape.B, shape.H, dtype.itemsize, device))


def run(
    cell: Cell,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: Sequence[Float[Tensor, "_K B H"]],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
) -> Run:
    """Under autocast sequences are stored in its dtype, otherwise in that of the weights."""
    dtype = stored_dtype(weights)
    tiles = choose_tiles(make_plan(cell.graph), x.shape[1], weights.U.shape[1], dtype.itemsize, x.device)
    with without_autocast():
        return run_tiled(cell, weights, x, initial, lengths, record=record, dtype=dtype, tiles=tiles)


def stored_dtype(weights: Weights) -> torch.dtype:
    """The dtype of sequences: that of autocast, or of the weights."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weights.W.dtype


def without_autocast() -> AbstractContextManager[Any]:
    return torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") else nullcontext()


def kept_inputs(weights: Weights, lengths: Int[Tensor, " B"] | None) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Lengths and masks as kernels read them. Of lengths a copy: the caller's may be mutated before the backward run."""
    ends = None if lengths is None else lengths.clone(memory_format=torch.contiguous_format)
    return ends, whole_masks(weights.noise, weights.U.shape[1]) if weights.noise else {}


def run_tiled(
    cell: Cell,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: Sequence[Float[Tensor, "_K B H"]],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
    dtype: torch.dtype,
    tiles: tuple[Tiles, Tiles],
) -> Run:
    """With these tiles, in as many launches as they need. No initial states are zeros."""
    plan, B, states = make_plan(cell.graph), x.shape[1], len(cell.graph.states)
    most = _most_rows(tiles, B, x.device)
    ends, masks = kept_inputs(weights, lengths)
    if most >= B:
        task = _Steps(cell, plan, masks, ends, record, dtype, tiles)
        return as_run(task.run(weights, x, initial), states, record=record)
    launches = []
    for first in range(0, B, most):
        some = slice(first, first + most)
        masked = {name: mask[:, some] if mask.shape[1] > 1 else mask for name, mask in masks.items()}
        task = _Steps(cell, plan, masked, None if ends is None else ends[some], record, dtype, tiles)
        launches.append(task.run(weights, x[:, some], [each[:, some] for each in initial]))
    return as_run([torch.cat(parts, 1) for parts in zip(*launches, strict=True)], states, record=record)


def _most_rows(tiles: tuple[Tiles, Tiles], B: int, device: torch.device) -> int:
    """The batch rows of a launch."""
    return min(rows_at_once(each, device) or B for each in tiles)


def prepare(cell: Cell, shape: Shape, dtype: torch.dtype, device: torch.device) -> Task | None:
    """A task for every run of this size without masks and lengths, of which nothing is recorded; none where it takes several."""
    plan = make_plan(cell.graph)
    tiles = choose_tiles(plan, shape.B, shape.H, dtype.itemsize, device)
    if _most_rows(tiles, shape.B, device) < shape.B:
        return None
    return _Steps(cell, plan, {}, None, False, dtype, tiles)


@lru_cache(maxsize=512)
def load(source: str, function: str) -> Any:
    """The function of a generated module. Triton reads the source again when it compiles, so it lies in a file."""
    name = f"recurra_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    path = cache_folder() / f"{name}.py"
    if read_text(path.name) != source:
        write_file(path.name, source.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # what runs is the text itself: neither what the file may hold by now, nor compiled code that lies beside it
    exec(compile(source, str(path), "exec"), vars(module))
    return getattr(module, function)


@lru_cache(maxsize=512)
def emitted(plan: Plan, function: str, tiles: Tiles, dtype: str, parameters: str, precision: str) -> Source:
    """For sequences in `dtype` and biases and per-unit parameters in `parameters`; `precision` is that of float32 products."""
    if tiles.native:
        return cuda.emit(plan, tiles, dtype, parameters, forward=function == "forward", exact=precision != "tf32")
    return triton.emit(plan, tiles, dtype, precision, forward=function == "forward")


@lru_cache(maxsize=512)
def compiled(
    plan: Plan, function: str, tiles: Tiles, dtype: torch.dtype, parameters: torch.dtype, precision: str, device: int
) -> tuple[Any, Source]:
    """The kernel as it is called, and its source. `device` is the current one: where the code is loaded."""
    source = emitted(plan, function, tiles, STORED[dtype], STORED[parameters], precision)
    if not tiles.native:
        return load(source.text, function), source
    shared = budget.shared_bytes(plan.forward if function == "forward" else plan.backward, tiles)
    return nvrtc.kernel(source.text, function, tiles.warps, shared, device), source


def unwritten(*shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory in which every number is the sentinel."""
    made = like.new_empty(shape, dtype=dtype)
    if made.is_cuda and made.get_device() == torch.cuda.current_device():
        nvrtc.set_all_bits(made)
    else:
        made.view(_SIGNED[made.dtype]).fill_(-1)
    return made


def stored_as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def aligned(tensor: Tensor) -> Tensor:
    """One piece of memory that begins where two numbers can be read at once."""
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % (2 * tensor.itemsize) == 0 else tensor.clone()


def in_pairs(tensor: Tensor) -> Tensor:
    """`tensor` itself if two neighbours of a row can be read at once wherever the first has an even number."""
    even = tensor.data_ptr() % (2 * tensor.itemsize) == 0 and not any(step % 2 for step in tensor.stride()[:-1])
    return tensor if even else aligned(tensor)


def bits(tensor: Tensor) -> Tensor:
    return tensor.view(_BITS[tensor.dtype])


@dataclass(frozen=True, eq=False)
class _Steps(Task):
    """One step after the other, all in one launch."""

    tiles: tuple[Tiles, Tiles]  # forward and backward

    def call(self, function: str, tiles: Tiles, arguments: dict[str, Any]) -> None:
        precision = "ieee"
        if self.dtype == torch.float32:  # three products in tf32 make one that is nearly as exact as float32
            precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"
        tape: Tensor = arguments["tape"]
        device = tape.get_device()
        with nvrtc.on(device):
            kernel, source = compiled(
                self.plan, function, tiles, self.dtype, arguments["bias"].dtype, precision, device
            )
            grid = (tiles.count, -(-arguments["B"] // tiles.rows))
            values = [arguments[name] for name in source.arguments]
            if tiles.native:
                kernel(*grid, nvrtc.addresses(values))
                return
            together = {"launch_cooperative_grid": True} if tiles.count > 1 and not tiles.alone else {}
            kernel[grid](*values, num_warps=tiles.warps, num_stages=1, **together)

    def forward(self, tensors: Sequence[Tensor], *, keep: bool) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        x, W, b, U = tensors[:4]
        made, graph, units = self.plan, self.plan.graph, self.units(tensors)
        (T, B, D), H = x.shape, U.shape[1]
        tiles, _ = self.tiles

        stored = stored_as(x, self.dtype).reshape(T * B, D)
        tape = self.tape(stored, W, H)
        arguments, awaited, states = self.common(T, B, tape, b, units), awaited_states(made.forward), []
        for state in graph.states:
            sizes = (state.depth + T, B, H)
            wait = state.name in awaited or not tiles.native
            states.append(unwritten(*sizes, like=tape) if wait else tape.new_empty(sizes))
        final: list[Tensor] = []
        if tiles.native:
            final = [tape.new_empty(state.depth, B, H) for state in graph.states]
            arguments |= named(graph, states) | named(graph, final, "final")
            arguments |= named(graph, self.initial(tensors), "initial")
        else:
            given = tensors[4 + len(self.cell.graph.parameters) :] or zero_states(graph, B, U)
            for values, first in zip(states, given, strict=True):
                torch.mul(first, 1, out=values[: len(first)])  # a copy in which no NaN is the sentinel
            arguments |= named(graph, (bits(state) for state in states))
        for k, own in enumerate(_own_matrices(made, U)):
            in_place = (
                stored_as(own, self.dtype).contiguous() if tiles.native else _side_by_side(own, tiles, self.dtype)
            )
            arguments[f"weights_{k}"] = in_place
        for k in exchanged_rows(made.forward, tiles):
            arguments[f"rows_{k}"] = bits(unwritten(T, B, H, like=tape))
        arguments["means"] = _means(made.forward.means, T, B, tiles, tape)
        self.call("forward", tiles, arguments)
        sequences = [state[-T:] for state in (states if self.record else states[:1])]
        last = final or [_final_values(state, T, self.lengths) for state in states]
        return (*sequences, *last), (stored, tape, *units, *states)

    def backward(
        self, tensors: Sequence[Tensor], kept: Sequence[Tensor], grads: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> list[Tensor | None]:
        x, _, b, U = tensors[:4]
        made, graph = self.plan, self.plan.graph
        (T, B, _), H = x.shape, U.shape[1]
        stored, tape, *rest = kept
        units, states = rest[: len(rest) - len(graph.states)], rest[len(rest) - len(graph.states) :]
        _, tiles = self.tiles

        gradient = unwritten(T, B, made.gradients * H, like=tape)
        sums = torch.empty(-(-B // tiles.rows), len(made.accumulated), H, device=tape.device)
        first = self.first_gradients(B, H, tape.device, wanted, every=not tiles.native)
        arguments = self.common(T, B, tape, b, units) | self.arriving(grads) | {"sums": sums}
        arguments["gradient"] = gradient if tiles.native else bits(gradient)
        arguments["means"] = _means(made.backward.means, T, B, tiles, tape)
        arguments |= named(graph, states) | named(graph, first, "initial")
        for k, own in enumerate(_own_matrices(made, U)):
            arguments[f"weights_{k}"] = stored_as(own, self.dtype).contiguous()
        computed = {k: tape.new_empty(T, B, H) for k in made.arguments if k is not None}
        arguments |= {f"argument_{k}": value for k, value in computed.items()}
        self.call("backward", tiles, arguments)

        drives = gradient.view(T * B, -1)[:, : len(graph.drives) * H]
        dU = _recurrent_gradient(made, gradient, states, computed, U) if wanted[3] else None
        results = self.gradients(tensors, wanted, (drives, stored), dU, sums, first)
        results[0] = None if results[0] is None else results[0].view(T, B, -1)
        return results


def named(graph: Graph, values: Iterable[Any], role: str = "s") -> dict[str, Any]:
    return dict(zip(_state_arguments(graph, role), values, strict=True))


@lru_cache(maxsize=1024)
def _state_arguments(graph: Graph, role: str) -> tuple[str, ...]:
    return tuple(state_argument(state.name, role) for state in graph.states)


def _side_by_side(U: Tensor, tiles: Tiles, dtype: torch.dtype) -> Tensor:
    """Recurrent weights by input, unit and output, the outputs of one unit side by side, padded with zeros."""
    H = U.shape[1]
    G = len(U) // H
    in_order, width, outputs = U.view(G, H, H).permute(2, 1, 0), tiles.count * tiles.units, padded(G)
    if (width, outputs) == (H, G):
        return in_order.to(dtype).contiguous()
    packed = torch.zeros(H, width, outputs, dtype=dtype, device=U.device)
    packed[:, :H, :G] = in_order
    return packed


def _own_matrices(plan: Plan, U: Tensor) -> list[Tensor]:
    """The recurrent weights of each group of products."""
    if len(plan.groups) == 1 and plan.groups[0].names == plan.graph.matrices:
        return [U]
    return [block(U, plan.graph.matrices, group.names, U.shape[1]) for group in plan.groups]


def _means(count: int, T: int, B: int, tiles: Tiles, like: Tensor) -> Tensor | None:
    if count == 0 or tiles.alone:
        return None
    return bits(unwritten(T, count, tiles.count, B, like=like, dtype=torch.float32))


def _mask_arguments(masks: Mapping[str, Tensor]) -> dict[str, Tensor | int]:
    """Each mask with its distances from step to step and from row to row; 0 along an axis that it does not have."""
    arguments: dict[str, Tensor | int] = {}
    for name, mask in masks.items():
        arguments[f"n_{name}"] = mask
        arguments[f"by_step_{name}"] = mask.stride(0) if mask.shape[0] > 1 else 0
        arguments[f"by_row_{name}"] = mask.stride(1) if mask.shape[1] > 1 else 0
    return arguments


def _final_values(state: Tensor, T: int, lengths: Tensor | None) -> Tensor:
    return state[T:].clone() if lengths is None else last_values(state, len(state) - T, lengths)


def _recurrent_gradient(
    plan: Plan, gradient: Tensor, states: Iterable[Tensor], computed: Mapping[int, Tensor], U: Tensor
) -> Tensor:
    """∂L/∂U: for each group one large product over all of time."""
    graph, H, T = plan.graph, U.shape[1], len(gradient)
    flat = gradient.flatten(0, 1)
    by_name = {state.name: (state.depth, value) for state, value in zip(graph.states, states, strict=True)}
    parts = []
    for group, place, number in zip(plan.groups, plan.places, plan.arguments, strict=True):
        if number is not None:
            argument = computed[number]
        else:
            depth, value = by_name[group.argument.name]
            start = depth - group.argument.delay
            argument = value[start : start + T]
        adjoint = flat[:, place * H : (place + len(group.names)) * H]
        parts.append(adjoint.t() @ argument.flatten(0, 1))
    if len(parts) == 1 and plan.groups[0].names == graph.matrices:
        return parts[0]
    total = torch.zeros_like(U)
    for group, part in zip(plan.groups, parts, strict=True):
        for name, own in zip(group.names, part.split(H), strict=True):
            row = graph.matrices.index(name) * H
            total[row : row + H] += own
    return total


def source_of(graph: Graph, language: str, B: int = 16, H: int = 256) -> str:
    """The generated Triton or CUDA C++ of a cell in bfloat16, forward and backward, as it is compiled for this size."""
    made = make_plan(graph)
    choose = choose_tiles if language == "cuda" else choose_triton
    tiles_of_both = choose(made, B, H, 2, torch.device("cpu"))
    if language == "cuda" and not all(tiles.native for tiles in tiles_of_both):
        raise EngineError(
            f"{graph.name} has no products, or LayerNorm, or too many weights, and is written in Triton. Ask for --source triton."
        )
    functions = zip(("forward", "backward"), tiles_of_both, strict=True)
    return "\n\n".join(emitted(made, name, tiles, "bfloat16", "bfloat16", "ieee").text for name, tiles in functions)
