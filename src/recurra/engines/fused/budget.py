"""What a program in CUDA C++ takes of registers and of shared memory, and so whether it can be one."""

from __future__ import annotations

from recurra.engines.fused.gpu_kernel import Tiles
from recurra.engines.fused.stages import Product, Step

REGISTERS = 208
"""Of a thread, for weights, rows and sums; the rest, of 255, is for the equations of one pair of units."""


def can_run(step: Step, tiles: Tiles, shared: int) -> bool:
    """Whether kernels can be cut so: products, no means, rows of whole words of 16 bytes, two pairs of units for a thread or one,
    everything on chip, where a program has `shared` bytes of shared memory."""
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
    """Numbers that a product leaves there: sums of each warp, lane and column, rows of columns padded against bank conflicts."""
    width = -(-outputs(product) * tiles.units // 32) * 32 + tiles.units
    return width * tiles.warps * tiles.lanes


def sums(step: Step, tiles: Tiles) -> int:
    """Of one pass, at most."""
    return max(sum(sums_of(product, tiles) for product in each.products) for each in step.passes)


def shared_bytes(step: Step, tiles: Tiles) -> int:
    """Also enough for the last sums over lanes, of two numbers for each thread."""
    return 4 * max(tiles.buffers * sums(step, tiles), 2 * 32 * tiles.warps)


# -- registers of a thread ---------------------------------------------------------------------------------------------


def weights(step: Step, tiles: Tiles) -> int:
    return sum(4 * blocks(product, tiles) * (outputs(product) * tiles.units // 8) for product in step.products)


def keeps_parts(step: Step, tiles: Tiles) -> bool:
    """Whether a thread keeps the two parts into which float32 weights are cut for exact products."""
    return tiles.itemsize == 4 and 2 * weights(step, tiles) <= 128


def registers(step: Step, tiles: Tiles, product: Product, at_once: int) -> int:
    """What a thread needs if it reads so many blocks of a product's inputs at once, and with few lanes the next ahead of time."""
    ahead = at_once < blocks(product, tiles) and tiles.lanes == 16
    rows, sums = 8 * at_once * (2 if ahead else 1), outputs(product) * tiles.units // 2
    held = weights(step, tiles) * (2 if keeps_parts(step, tiles) else 1)
    cut = 8 if tiles.itemsize == 4 else 0  # numbers of a row, in two parts
    return held + rows + sums + cut + 16 * (_pairs(tiles) - 1)


def _pairs(tiles: Tiles) -> int:
    """Of units, that a thread owns."""
    return -(-tiles.lanes * tiles.units // (64 * tiles.warps))


# -- time --------------------------------------------------------------------------------------------------------------


def patience(step: Step, tiles: Tiles) -> int:
    """Cycles before the first look at a row. Found on an H200: where all programs of a group read much in a step, those that
    look too early are in the way of those that store."""
    longest = max(product.inputs(tiles.H) for product in step.products)
    return 200 if tiles.programs * tiles.lanes * longest * tiles.itemsize > 256 * 1024 else 0
