"""The generated GPU kernels, loaded and run: all steps of a sequence in one launch forward and one backward."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from recurra.cells.graph import Graph, block
from recurra.cells.notation import Cell
from recurra.engines.eager import last_values
from recurra.engines.fused import budget, cuda, nvrtc, triton
from recurra.engines.fused.cache import cache_folder, read_text, write_file
from recurra.engines.fused.gpu_kernel import Source, Tiles, awaited_states, exchanged_rows, state_argument
from recurra.engines.fused.sequence import arriving_gradients, as_run, whole_masks
from recurra.engines.fused.stages import Plan
from recurra.engines.fused.stages import plan as make_plan
from recurra.engines.fused.tiles import choose_tiles, choose_triton, in_words, multiprocessors, rows_at_once
from recurra.engines.fused.triton import TYPES, padded
from recurra.engines.protocol import Run, Support, Weights, no
from recurra.errors import EngineError
from recurra.types import Float, Int, Shape

STORED = {getattr(torch, name): name for name in TYPES}
"""The dtypes in which sequences are stored; sums and states are always float32."""
DEEPEST = 64
"""Steps back: each is a tile of registers in the backward run."""
_BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.uint16, torch.float32: torch.uint32}


@dataclass(frozen=True, eq=False)
class Task:
    """What a run has besides tensors with gradients."""

    plan: Plan
    units: tuple[str, ...]
    masks: dict[str, Tensor]
    lengths: Tensor | None
    record: bool
    dtype: torch.dtype
    tiles: tuple[Tiles, Tiles]  # forward and backward

    def common(self, T: int, B: int, tape: Tensor, bias: Tensor, units: Iterable[Tensor]) -> dict[str, Any]:
        """The arguments of both functions."""
        given = {"T": T, "B": B, "nought": 0, "lengths": self.lengths, "tape": tape, "bias": aligned(bias)}
        own = {f"p_{name}": value for name, value in zip(self.units, units, strict=True)}
        return {**given, **own, **_mask_arguments(self.masks)}


@lru_cache(maxsize=16)
def _lacks(device: torch.device) -> str:
    """What kernels need and this machine does not have."""
    if find_spec("triton") is None:
        return "its GPU kernels are compiled by Triton, which is not installed"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "its GPU kernels need a device of compute capability 8.0 or later"
    return ""


def supports(cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> Support:
    if _lacks(device):
        return no(_lacks(device))
    if dtype not in STORED:
        return no(f"its GPU kernels store {', '.join(STORED.values())}, not {dtype}")
    deepest = max(state.depth for state in cell.graph.states)
    if deepest > DEEPEST:
        return no(f"its GPU kernels look back at most {DEEPEST} steps; {cell.name} looks back {deepest}")
    if 64 * multiprocessors(device) < shape.H:
        return no(f"its GPU kernels take at most {64 * multiprocessors(device)} units here")
    return Support(True, how=in_words(make_plan(cell.graph), shape.B, shape.H, dtype.itemsize, device))


def run(
    plan: Plan,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: tuple[Float[Tensor, "_K B H"], ...],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
) -> Run:
    """Under autocast sequences are stored in its dtype, otherwise in that of the weights."""
    autocast = torch.is_autocast_enabled("cuda")
    dtype = torch.get_autocast_dtype("cuda") if autocast else weights.W.dtype
    tiles = choose_tiles(plan, x.shape[1], initial[0].shape[-1], dtype.itemsize, x.device)
    with torch.autocast("cuda", enabled=False) if autocast else nullcontext():
        return run_tiled(plan, weights, x, initial, lengths, record=record, dtype=dtype, tiles=tiles)


def run_tiled(
    plan: Plan,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: tuple[Float[Tensor, "_K B H"], ...],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
    dtype: torch.dtype,
    tiles: tuple[Tiles, Tiles],
) -> Run:
    """With these tiles, in as many launches as they need."""
    (_, B, _), H = x.shape, initial[0].shape[-1]
    most = min(rows_at_once(each, x.device) or B for each in tiles)
    # a copy: the kernel reads neighbours in memory, and the caller's may be mutated before the backward run
    ends = None if lengths is None else lengths.clone(memory_format=torch.contiguous_format)
    masks = whole_masks(weights.noise, H) if weights.noise else {}
    names, common = tuple(weights.units), (weights.W, weights.b, weights.U, *weights.units.values())

    def launch(x: Tensor, initial: Iterable[Tensor], ends: Tensor | None, masks: dict[str, Tensor]) -> Any:
        task = Task(plan, names, masks, ends, record, dtype, tiles)
        return Sequence.apply(task, x, *common, *initial)  # type: ignore[no-untyped-call]

    if most >= B:
        return as_run(launch(x, initial, ends, masks), len(initial), record=record)
    launches = []
    for first in range(0, B, most):
        some = slice(first, first + most)
        masked = {name: mask[:, some] if mask.shape[1] > 1 else mask for name, mask in masks.items()}
        launches.append(
            launch(x[:, some], (each[:, some] for each in initial), None if ends is None else ends[some], masked)
        )
    results = [torch.cat(parts, 1) for parts in zip(*launches, strict=True)]
    return as_run(results, len(initial), record=record)


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


def call(task: Task, function: str, tiles: Tiles, arguments: dict[str, Any]) -> None:
    precision = "ieee"
    if task.dtype == torch.float32:  # three products in tf32 make one that is as exact as float32
        precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"
    source = emitted(task.plan, function, tiles, STORED[task.dtype], STORED[arguments["bias"].dtype], precision)
    device = arguments["tape"].device
    elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    with torch.cuda.device(device) if elsewhere else nullcontext():  # kernels are launched on the current one
        _launch(task, function, tiles, source, arguments)


def _launch(task: Task, function: str, tiles: Tiles, source: Source, arguments: dict[str, Any]) -> None:
    grid = (tiles.count, -(-arguments["B"] // tiles.rows))
    values = [arguments[name] for name in source.arguments]
    if tiles.native:
        step = task.plan.forward if function == "forward" else task.plan.backward
        shared = budget.shared_bytes(step, tiles)
        kernel = nvrtc.kernel(source.text, function, tiles.warps, shared, arguments["tape"].get_device())
        kernel(*grid, [value.data_ptr() if isinstance(value, Tensor) else value or 0 for value in values])
        return
    together = {"launch_cooperative_grid": True} if tiles.count > 1 and not tiles.alone else {}
    load(source.text, function)[grid](*values, num_warps=tiles.warps, num_stages=1, **together)


def unwritten(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory in which every number is the sentinel."""
    whole = torch.int16 if dtype.itemsize == 2 else torch.int32
    return torch.full(shape, -1, dtype=whole, device=device).view(dtype)


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


class Sequence(torch.autograd.Function):
    """All steps at once. Inputs after the task: x, W, b, U, per-unit parameters, initial states."""

    @staticmethod
    def forward(ctx: Any, task: Task, *tensors: Tensor) -> tuple[Tensor, ...]:
        x, W, b, U, *rest = tensors
        # in float32: folded constants would not survive 16 bits
        units = [aligned(each.float()) for each in rest[: len(task.units)]]
        initial = rest[len(task.units) :]
        made, graph = task.plan, task.plan.graph
        (T, B, D), H, G = x.shape, U.shape[1], len(graph.drives)
        tiles, _ = task.tiles

        stored = x.to(task.dtype).reshape(T * B, D)
        tape = stored @ W.to(task.dtype).t()
        if made.slots > G:
            drives, tape = tape, torch.empty(T * B, made.slots * H, dtype=task.dtype, device=x.device)
            tape[:, : G * H] = drives
        states, awaited = [], awaited_states(made.forward)
        for known, first in zip(graph.states, initial, strict=True):
            take = unwritten if known.name in awaited or not tiles.native else torch.empty
            state = take(len(first) + T, B, H, dtype=task.dtype, device=x.device)
            torch.mul(first, 1, out=state[: len(first)])  # a copy in which no NaN is the sentinel
            states.append(state)
        arguments = task.common(T, B, tape, b, units) | _named(graph, (bits(state) for state in states))
        for k, group in enumerate(made.groups):
            own = block(U, graph.matrices, group.names, H)
            in_place = own.to(task.dtype).contiguous() if tiles.native else _side_by_side(own, tiles, task.dtype)
            arguments[f"weights_{k}"] = in_place
        arguments |= {
            f"rows_{k}": bits(unwritten(T, B, H, dtype=task.dtype, device=x.device))
            for k in exchanged_rows(made.forward, tiles)
        }
        arguments["means"] = _means(made.forward.means, T, B, tiles, x.device)
        final = [torch.empty(first.shape, dtype=task.dtype, device=x.device) for first in initial if tiles.native]
        if final:
            arguments |= _named(graph, final, "final")
        call(task, "forward", tiles, arguments)

        ctx.task, ctx.sizes, ctx.dtypes = task, (T, B, H), [tensor.dtype for tensor in tensors]
        ctx.save_for_backward(stored, W, b, U, tape, *units, *states)
        ctx.set_materialize_grads(False)
        sequences = [state[-T:] for state in (states if task.record else states[:1])]
        return (*sequences, *(final or [_final_values(state, T, task.lengths) for state in states]))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        task: Task = ctx.task
        T, B, H = ctx.sizes
        made, graph = task.plan, task.plan.graph
        x, W, b, U, tape, *rest = ctx.saved_tensors
        units, states = rest[: len(task.units)], rest[len(task.units) :]
        S, device = len(states), x.device
        _, tiles = task.tiles
        arriving, final = arriving_gradients(grads, S, record=task.record)
        arriving = [None if each is None else in_pairs(each) for each in arriving]
        final = [None if each is None else aligned(each) for each in final]

        gradient = unwritten(T, B, made.gradients * H, dtype=task.dtype, device=device)
        sums = torch.empty(-(-B // tiles.rows), len(made.accumulated), H, device=device)
        first = [torch.empty(len(state) - T, B, H, device=device) for state in states]
        arguments = task.common(T, B, tape, b, units) | {"gradient": bits(gradient), "sums": sums}
        arguments["means"] = _means(made.backward.means, T, B, tiles, device)
        arguments |= _named(graph, states) | _named(graph, first, "initial") | _named(graph, final, "final")
        arguments |= _named(graph, arriving, "arriving")
        arguments |= _named(graph, (0 if each is None else each.stride(0) for each in arriving), "per_step")
        arguments |= _named(graph, (0 if each is None else each.stride(1) for each in arriving), "per_row")
        for k, group in enumerate(made.groups):
            arguments[f"weights_{k}"] = block(U, graph.matrices, group.names, H).to(task.dtype).contiguous()
        computed = {k: torch.empty(T, B, H, dtype=task.dtype, device=device) for k in made.arguments if k is not None}
        arguments |= {f"argument_{k}": value for k, value in computed.items()}
        call(task, "backward", tiles, arguments)

        wanted = ctx.needs_input_grad[1:]
        drives = gradient.view(T * B, -1)[:, : len(graph.drives) * H]
        totals = sums[0] if len(sums) == 1 else sums.sum(0)  # of biases, then of parameters
        dx = (drives @ W.to(task.dtype)).view(T, B, -1) if wanted[0] else None
        dW = drives.t() @ x if wanted[1] else None
        dU = _recurrent_gradient(made, gradient, states, computed, U) if wanted[3] else None
        results = [dx, dW, totals[: len(graph.drives)].flatten(), dU, *totals[len(graph.drives) :], *first]
        return (None, *(None if g is None else g.to(dtype) for g, dtype in zip(results, ctx.dtypes, strict=True)))


def _named(graph: Graph, values: Iterable[Any], role: str = "s") -> dict[str, Any]:
    return {state_argument(state.name, role): value for state, value in zip(graph.states, values, strict=True)}


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


def _means(count: int, T: int, B: int, tiles: Tiles, device: torch.device) -> Tensor | None:
    if count == 0 or tiles.alone:
        return None
    return bits(unwritten(T, count, tiles.count, B, dtype=torch.float32, device=device))


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
    by_name = {state.name: (state.depth, value) for state, value in zip(graph.states, states, strict=True)}
    parts = []
    for group, place, number in zip(plan.groups, plan.places, plan.arguments, strict=True):
        if number is not None:
            argument = computed[number]
        else:
            depth, value = by_name[group.argument.name]
            start = depth - group.argument.delay
            argument = value[start : start + T]
        adjoint = gradient[:, :, place * H : (place + len(group.names)) * H]
        parts.append(adjoint.flatten(0, 1).t() @ argument.flatten(0, 1))
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
