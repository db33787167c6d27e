"""The register and shared-memory budget of a thread block in CUDA C++, and so whether a tile can be one.

Weights are fastest where they never move: each thread keeps its share of them in registers for all of time. The budget
is exact where the layout is (`Product` of `steps.cuh`: each warp has a part of the inputs, in blocks of 64 bytes, for
all outputs of the tile), and leaves the rest of a thread's 255 registers to the equations. Invariant: what `can_run`
accepts, the compiler does not spill. Were it too generous a kernel would still be right, only slow; were it too strict
the cell runs in Triton.
"""

from __future__ import annotations

from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.fused.stages import Product, Step

REGISTERS = 208
"""Of a thread, for weights, rows and sums; the rest, of 255, is for the equations of one pair of units."""


def can_run(step: Step, tiles: Tiles, shared: int) -> bool:
    """Whether such a tile can run: products, no LayerNorm, rows that are 16-byte aligned, at most two pairs of units a thread,
    weights in registers, and sums in the `shared` bytes of shared memory that a thread block has."""
    if step.means or tiles.H * tiles.itemsize % 16 or _pairs(tiles) > 2:
        return False
    fits = [registers(step, tiles, product, 1) <= REGISTERS for product in step.products]
    return bool(fits) and all(fits) and shared_bytes(step, tiles) <= shared


# -- products ----------------------------------------------------------------------------------------------------------


def outputs(product: Product) -> int:
    """For each unit."""
    return 1 if product.is_transposed else len(product.nodes)


def blocks(product: Product, tiles: Tiles) -> int:
    """Of 64 bytes of inputs, that a warp takes."""
    return -(-product.inputs(tiles.H) * tiles.itemsize // (64 * tiles.warps))


# -- shared memory -----------------------------------------------------------------------------------------------------


def sums_of(product: Product, tiles: Tiles) -> int:
    """Numbers that a product leaves there: sums of each warp, batch row and column, padded against bank conflicts."""
    width = -(-outputs(product) * tiles.units // 32) * 32 + tiles.units
    return width * tiles.warps * tiles.rows


def sums(step: Step, tiles: Tiles) -> int:
    """Of one pass, at most."""
    return max(sum(sums_of(product, tiles) for product in each.products) for each in step.passes)


def shared_bytes(step: Step, tiles: Tiles) -> int:
    """Also enough for the last sums over batch rows, of two numbers for each thread."""
    return 4 * max(tiles.buffers * sums(step, tiles), 2 * 32 * tiles.warps)


# -- registers of a thread ---------------------------------------------------------------------------------------------


def weights(step: Step, tiles: Tiles) -> int:
    return sum(4 * blocks(product, tiles) * (outputs(product) * tiles.units // 8) for product in step.products)


def keeps_parts(step: Step, tiles: Tiles) -> bool:
    """Whether a thread keeps the two parts into which float32 weights are divided for exact products."""
    return tiles.itemsize == 4 and 2 * weights(step, tiles) <= 128


def registers(step: Step, tiles: Tiles, product: Product, at_once: int) -> int:
    """What a thread needs if it reads so many blocks of a product's inputs at once; with few batch rows it prefetches more."""
    ahead = at_once < blocks(product, tiles) and tiles.rows == 16
    rows, sums = 8 * at_once * (2 if ahead else 1), outputs(product) * tiles.units // 2
    held = weights(step, tiles) * (2 if keeps_parts(step, tiles) else 1)
    halves = 8 if tiles.itemsize == 4 else 0  # numbers of a row, in two parts
    return held + rows + sums + halves + 16 * (_pairs(tiles) - 1)


def _pairs(tiles: Tiles) -> int:
    """Of units, that a thread owns."""
    return -(-tiles.rows * tiles.units // (64 * tiles.warps))


# -- time --------------------------------------------------------------------------------------------------------------


def patience(step: Step, tiles: Tiles) -> int:
    """Cycles before the first look at a row. Found on an H200: where all thread blocks of a group read much in a step, those that
    look too early are in contention with those that store."""
    longest = max(product.inputs(tiles.H) for product in step.products)
    return 200 if tiles.count * tiles.rows * longest * tiles.itemsize > 256 * 1024 else 0
