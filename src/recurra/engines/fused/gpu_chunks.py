"""The generated kernels of a linear recurrence, loaded and run: all chunks of time side by side (`cuda_chunks`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines.affine import transfers
from recurra.engines.fused import nvrtc
from recurra.engines.fused.cuda_chunks import BORDER_WARPS, WARPS, Chunked
from recurra.engines.fused.gpu import STORED, Task, kept_inputs, lacks, named, stored_as, stored_dtype, without_autocast
from recurra.engines.fused.gpu_kernel import Source
from recurra.engines.fused.sequence import as_run
from recurra.engines.fused.stages import Plan
from recurra.engines.fused.stages import plan as make_plan
from recurra.engines.protocol import Run, Support, Weights, no
from recurra.types import Float, Int, Shape

LARGEST = 4
"""Values that feed back on each other; their products over a chunk are matrices of this size for each unit."""
SHORTEST = 32
"""Steps of a chunk; so many that the maps of all chunks are small beside the sequence."""
THREADS = 2**18
"""As many as a GPU can have at once; a longer sequence has longer chunks."""


def supports(plan: Plan, device: torch.device, dtype: torch.dtype) -> Support:
    if not nvrtc.is_there():
        return no("its GPU kernels are compiled by NVRTC, which comes with torch for CUDA and was not found")
    if lacks(device, dtype):
        return no(lacks(device, dtype))
    most = max((len(made.components) for made in transfers(plan.graph)), default=0)
    if most > LARGEST:
        name = plan.graph.name
        return no(f"{name} feeds {most} values back on each other; on a GPU it takes at most {LARGEST}")
    return Support(True, how="chunks of time side by side")


def chunk_length(T: int, B: int, H: int) -> int:
    """Steps of a chunk: a power of two."""
    threads, length = -(-H // 2) * B * T, SHORTEST
    while threads > length * THREADS and length < T:
        length *= 2
    return length


class Kernels:
    """Those of a plan for one size, on one device; each is compiled when it is first asked for."""

    def __init__(self, made: Chunked, device: int):
        self.made, self.device = made, device
        self.loaded: dict[tuple[Any, ...], tuple[Any, Source]] = {}

    def get(self, function: str, *which: int, **options: Any) -> tuple[Any, Source]:
        key = (function, *which, *options.values())
        found = self.loaded.get(key)
        if found is None:
            source = getattr(self.made, function)(*which, **options)
            borders = function == "borders"
            warps, shared = (BORDER_WARPS, self.made.border_memory(*which)) if borders else (WARPS, 0)
            found = nvrtc.kernel(source.text, function, warps, shared, self.device, together=False), source
            self.loaded[key] = found
        return found

    def over_chunks(self, function: str, *which: int, threads: int, arguments: dict[str, Any], **options: str) -> None:
        self.launch(function, -(-threads // (32 * WARPS)), arguments, *which, **options)

    def borders(self, chain: int, *, forward: bool, arguments: dict[str, Any]) -> None:
        self.launch("borders", -(-arguments["count"] // 32), arguments, chain, forward=forward)

    def launch(self, function: str, blocks: int, arguments: dict[str, Any], *which: int, **options: Any) -> None:
        with nvrtc.on(self.device):
            kernel, source = self.get(function, *which, **options)
            kernel(blocks, 1, nvrtc.addresses(arguments[name] for name in source.arguments))


@lru_cache(maxsize=256)
def kernels(plan: Plan, H: int, dtype: torch.dtype, parameters: torch.dtype, device: int) -> Kernels:
    return Kernels(Chunked(plan, H, STORED[dtype], STORED[parameters]), device)


def run(
    cell: Cell,
    weights: Weights,
    x: Float[Tensor, "T B D"],
    initial: Sequence[Float[Tensor, "_K B H"]],
    lengths: Int[Tensor, " B"] | None,
    *,
    record: bool,
    length: int = 0,
    dtype: torch.dtype | None = None,
) -> Run:
    """Under autocast sequences are stored in its dtype, otherwise in that of the weights. `length` is that of a chunk."""
    dtype = dtype or stored_dtype(weights)
    plan, (T, B, _), H = make_plan(cell.graph), x.shape, weights.U.shape[1]
    ends, masks = kept_inputs(weights, lengths)
    loaded = kernels(plan, H, dtype, weights.b.dtype, x.get_device())
    task = _Chunks(cell, plan, masks, ends, record, dtype, loaded, length or chunk_length(T, B, H))
    with without_autocast():
        return as_run(task.run(weights, x, initial), len(cell.graph.states), record=record)


def prepare(cell: Cell, shape: Shape, dtype: torch.dtype, device: torch.device) -> Task:
    """A task for every run of this size without masks and lengths, of which nothing is recorded."""
    plan = make_plan(cell.graph)
    loaded = kernels(plan, shape.H, dtype, dtype, -1 if device.index is None else device.index)
    return _Chunks(cell, plan, {}, None, False, dtype, loaded, chunk_length(shape.T, shape.B, shape.H))


def _order(x: Float[Tensor, "T B D"]) -> tuple[int, int]:
    """Of the steps of all batch rows below one another as they lie in memory: from step to step, and from row to row."""
    T, B, _ = x.shape
    return (1, T) if x.stride(0) < x.stride(1) else (B, 1)


@dataclass(frozen=True, eq=False)
class _Chunks(Task):
    """All chunks of time side by side."""

    kernels: Kernels
    length: int

    def sizes(self, T: int, B: int, H: int, per_step: int, per_row: int) -> dict[str, Any]:
        C = -(-T // self.length)
        return {"L": self.length, "C": C, "count": B * H, "per_step": per_step, "per_row": per_row}

    def maps(self, chain: int, C: int, B: int, H: int, device: torch.device) -> dict[str, Tensor]:
        """What a chunk of time makes of the values of a chain, and what is at its border."""
        N = len(self.kernels.made.chains[chain].components)
        offset, borders = torch.empty(2, C, N, B, H, device=device)
        return {"offset": offset, "borders": borders}

    def forward(self, tensors: Sequence[Tensor], *, keep: bool) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        x, W, b, U = tensors[:4]
        graph, units = self.plan.graph, self.units(tensors)
        (T, B, _), H = x.shape, U.shape[1]
        per_step, per_row = _order(x)
        stored = stored_as(x.transpose(0, 1) if per_step == 1 else x, self.dtype).flatten(0, 1)
        tape = self.tape(stored, W, H)
        what = "all" if keep else "states" if self.record else "outputs"
        seen = len(graph.states) if what != "outputs" else 1
        states = [tape.new_empty(state.depth + (T if k < seen else 0), B, H) for k, state in enumerate(graph.states)]
        final = [tape.new_empty(state.depth, B, H) for state in graph.states]
        arguments = self.common(T, B, tape, b, units) | self.sizes(T, B, H, per_step, per_row)
        arguments |= named(graph, states) | named(graph, final, "final")
        arguments |= named(graph, self.initial(tensors), "initial")
        C, matrices = arguments["C"], []
        threads = C * B * self.kernels.made.pairs
        for k, made in enumerate(self.kernels.made.chains):
            matrices.append(torch.empty(C, len(made.components) ** 2, B, H, device=x.device))
            maps = arguments | self.maps(k, C, B, H, x.device) | {"matrix": matrices[k]}
            self.kernels.over_chunks("transfer", k, threads=threads, arguments=maps)
            self.kernels.borders(k, forward=True, arguments=maps)
            arguments[f"borders_{k}"] = maps["borders"]
        self.kernels.over_chunks("forward", threads=threads, arguments=arguments, keep=what)
        sequences = [state[-T:] for state in (states if self.record else states[:1])]
        return (*sequences, *final), (stored, tape, *units, *states, *matrices)

    def backward(
        self, tensors: Sequence[Tensor], kept: Sequence[Tensor], grads: Sequence[Tensor | None], wanted: Sequence[bool]
    ) -> list[Tensor | None]:
        x, _, b, U = tensors[:4]
        plan, graph, chains = self.plan, self.plan.graph, self.kernels.made.chains
        (T, B, _), H = x.shape, U.shape[1]
        stored, tape, *rest = kept
        matrices, rest = rest[len(rest) - len(chains) :], rest[: len(rest) - len(chains)]
        units, states = rest[: len(rest) - len(graph.states)], rest[len(rest) - len(graph.states) :]
        per_step, per_row = _order(x)
        gradient = tape.new_empty(T * B, plan.gradients * H)
        arguments = self.common(T, B, tape, b, units) | self.sizes(T, B, H, per_step, per_row) | self.arriving(grads)
        C = arguments["C"]
        sums = torch.empty(C * B, len(plan.accumulated), H, device=x.device)
        first = self.first_gradients(B, H, x.device, wanted)
        arguments |= named(graph, states) | named(graph, first, "initial") | {"gradient": gradient, "sums": sums}
        threads = C * B * self.kernels.made.pairs
        for k in reversed(range(len(chains))):
            maps = arguments | self.maps(k, C, B, H, x.device) | {"matrix": matrices[k]}
            self.kernels.over_chunks("arrive", k, threads=threads, arguments=maps)
            self.kernels.borders(k, forward=False, arguments=maps)
            arguments[f"borders_{k}"] = maps["borders"]
        self.kernels.over_chunks("backward", threads=threads, arguments=arguments)
        results = self.gradients(tensors, wanted, (gradient, stored), None, sums, first)
        if results[0] is not None:
            rows = results[0]
            results[0] = rows.view(B, T, -1).transpose(0, 1) if per_step == 1 else rows.view(T, B, -1)
        return results
