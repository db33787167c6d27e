"""How a run is cut into programs of a GPU: by size, and by what fits on chip."""

from __future__ import annotations

from functools import lru_cache

import torch

from recurra.engines.fused.stages import Plan, Program
from recurra.engines.fused.triton import Tiles, padded

ON_CHIP = 160 * 1024
"""Bytes of recurrent weights that one multiprocessor keeps, in registers and shared memory."""
ALONE = 40 * 1024
"""Up to so many bytes of weights one program owns all units: no other program has to be waited for."""
LANES = 16
"""The fewest rows that the matrix units multiply at once."""


@lru_cache(maxsize=16)
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def choose_tiles(plan: Plan, B: int, H: int, itemsize: int, device: torch.device) -> tuple[Tiles, Tiles]:
    """Forward and backward."""
    sms = multiprocessors(device)
    return _choose(plan.forward, B, H, itemsize, sms), _choose(plan.backward, B, H, itemsize, sms)


def outputs(program: Program) -> int:
    """Columns of weights for each unit, over all products of a step; backward, rows in units of H."""
    return sum(
        padded(len(product.nodes)) if product.nodes[0].kind == "product" else product.blocks
        for each in program.passes
        for product in each.products
    )


@lru_cache(maxsize=1024)
def _choose(program: Program, B: int, H: int, itemsize: int, sms: int) -> Tiles:
    whole = padded(H)
    G = outputs(program)
    if G == 0 and program.means == 0:  # units have nothing to do with one another: a warp for each few
        return Tiles(H, 1, min(32, whole), 16, alone=True, warps=1)
    row = max(whole, 16)
    if G * row * row * itemsize <= ALONE:
        return Tiles(H, LANES, row, row, alone=True, warps=4)
    best: tuple[float, Tiles] | None = None
    for lanes in (16, 32, 64, 128):
        if lanes > 16 and lanes >= 2 * B:
            break
        for units in (8, 16, 32, 64):
            programs = -(-H // units)
            held = G * units * H * itemsize
            if programs > sms or held > ON_CHIP:
                continue
            groups = -(-B // lanes)
            rounds = -(-programs * groups // sms)  # launches that follow one another
            moved = rounds * (lanes * H * itemsize + held / 4)
            chunk = max(16, min(256, padded(-(-H // 2)), 32768 // lanes))
            tiles = Tiles(H, lanes, units, chunk, warps=8 if units * G * lanes >= 4096 else 4)
            if best is None or moved < best[0]:
                best = moved, tiles
    if best is not None:
        return best[1]
    units = max(8, padded(-(-H // sms)))
    return Tiles(H, 16 if B <= 16 else 64, min(units, 64), 64, resident=False, warps=4)
