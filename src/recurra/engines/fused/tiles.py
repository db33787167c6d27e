"""The choice of tiles: by size, and by what fits into registers and shared memory.

A step is a matter of latency: reading what other tiles have stored, then a small product. Found on an H200: four warps,
16 units and 16 batch rows a tile are best wherever they fit. Fewer tiles have more to do each, more tiles are in
contention for the L2 cache. Larger batches take more rows a tile, and then further launches. CUDA C++ comes first; what
it cannot keep in registers is left to Triton, which keeps weights in shared memory or, at last, reads them at every
step.

Invariant: tiles that wait for each other are never more than the multiprocessors, one for each, or they would not all
be resident and the launch would hang (`rows_at_once` limits the batch rows of a launch accordingly).
"""

from __future__ import annotations

from functools import lru_cache

import torch

from recurra.engines.fused import budget, nvrtc
from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.fused.stages import Plan, Step
from recurra.engines.fused.triton import IN_REGISTERS, padded

SHARED_MEMORY = 224 * 1024
"""Bytes in which a multiprocessor keeps weights and passes rows to its matrix units."""
ALONE = 32
"""Up to so many units one tile has all of them, and nobody has to be waited for."""
ROWS = 16
"""The fewest batch rows that the matrix units multiply at once."""
SHAPES = {2: ((16, 4), (16, 8), (8, 8)), 4: ((16, 8), (8, 8))}
"""Units and warps of a tile in CUDA C++, by the bytes of a number; the first that fits is taken."""


@lru_cache(maxsize=16)
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


@lru_cache(maxsize=16)
def shared_memory(device: torch.device) -> int:
    """Bytes that one thread block can have."""
    if device.type != "cuda":
        return 227 * 1024
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)  # type: ignore[attr-defined]


def choose_tiles(plan: Plan, B: int, H: int, itemsize: int, device: torch.device) -> tuple[Tiles, Tiles]:
    """Forward and backward."""
    forward, backward = choose_triton(plan, B, H, itemsize, device)
    if device.type == "cuda" and not nvrtc.is_there():
        return forward, backward
    sms, shared = multiprocessors(device), shared_memory(device)
    return (
        _choose_native(plan.forward, B, H, itemsize, sms, shared) or forward,
        _choose_native(plan.backward, B, H, itemsize, sms, shared) or backward,
    )


def choose_triton(plan: Plan, B: int, H: int, itemsize: int, device: torch.device) -> tuple[Tiles, Tiles]:
    """As if there were no kernels in CUDA C++."""
    sms = multiprocessors(device)
    held = itemsize if itemsize < 4 else 2 * itemsize  # float32 is two parts, for products as exact as float32
    return _choose(plan.forward, B, H, held, sms, split=1), _choose(plan.backward, B, H, held, sms, split=4)


@lru_cache(maxsize=1024)
def _choose_native(step: Step, B: int, H: int, itemsize: int, sms: int, shared: int) -> Tiles | None:
    """In CUDA C++, if weights and sums fit."""
    if H <= ALONE:
        return None
    for most in (64, 32, ROWS):  # batch rows a tile
        for units, warps in SHAPES[itemsize]:
            count = -(-H // units)
            rows = _rows(B, count, sms, most)
            for buffers in (2, 1):
                tiles = Tiles(H, rows, units, warps=warps, native=True, itemsize=itemsize, buffers=buffers)
                if count <= sms and budget.can_run(step, tiles, shared):
                    return tiles
    return None


def rows_at_once(tiles: Tiles, device: torch.device) -> int | None:
    """How many batch rows one launch can take, since tiles that wait for each other must all be resident; None: any number."""
    if tiles.alone:
        return None
    return tiles.rows * max(1, multiprocessors(device) // tiles.count)


def is_small(plan: Plan, B: int, H: int, itemsize: int, device: torch.device) -> bool:
    """Whether weights are resident and one launch is enough, of the smallest tiles unless in CUDA C++ in 16 bits: where these
    kernels are faster than cuDNN's."""
    return all(
        tiles.resident
        and (tiles.rows <= ROWS or (tiles.native and itemsize == 2))
        and (rows_at_once(tiles, device) or B) >= B
        for tiles in choose_tiles(plan, B, H, itemsize, device)
    )


@lru_cache(maxsize=1024)
def in_words(plan: Plan, B: int, H: int, itemsize: int, device: torch.device) -> str:
    """The tiles of a run, for a person who asks."""
    tiles = choose_tiles(plan, B, H, itemsize, device)[0]
    launches = -(-B // (rows_at_once(tiles, device) or B))
    often = f", {launches} launches" if launches > 1 else ""
    if tiles.alone:
        return "each program has all units of its batch rows" if _outputs(plan.forward) else "units run on their own"
    where, parts = ("registers", "thread blocks") if tiles.native else ("shared memory", "programs")
    weights = f"stay in {where}" if tiles.resident else "are read again at every step"
    return f"weights {weights}, {tiles.count} {parts} of {tiles.units} units and {tiles.rows} batch rows{often}"


def _outputs(step: Step) -> int:
    """Columns of weights for each unit, over all products of a step; backward, rows in units of H."""
    return sum(product.blocks if product.is_transposed else padded(len(product.nodes)) for product in step.products)


@lru_cache(maxsize=1024)
def _choose(step: Step, B: int, H: int, held: int, sms: int, split: int) -> Tiles:
    G = _outputs(step)
    if G == 0 and step.means == 0:  # units have nothing to do with one another: a warp for each few
        return Tiles(H, 1, min(32, padded(H)), alone=True, warps=1)
    if H <= ALONE:
        return Tiles(H, ROWS, max(padded(H), ROWS), alone=True)
    for units in (16, 8):
        count = -(-H // units)
        rows = _rows(B, count, sms)
        fits = count <= sms and G * units * H * held + IN_REGISTERS <= SHARED_MEMORY
        if fits and (rows == ROWS or G * H <= 4096):  # more rows leave no registers for long rows
            return Tiles(H, rows, units, split=split if rows == ROWS else 1)
    units = max(16, padded(-(-H // sms)))
    return Tiles(H, _rows(B, -(-H // units), sms), units, resident=False)


def _rows(B: int, count: int, sms: int, most: int = 32) -> int:
    """The fewest batch rows a tile with which one launch takes the batch. In Triton no more than 32: with 64 it takes warp-group
    matrix instructions, and its assembler (ptxas 12.8) makes wrong shared-memory addresses of two such products."""
    rows = ROWS
    while rows < most and rows * (sms // count) < B:
        rows *= 2
    return rows
