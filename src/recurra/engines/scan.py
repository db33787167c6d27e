"""`scan`: cells that are linear in their state, all of time side by side.

Where the next state is a(t) ⊙ s + b(t), with a and b free of the state, no unit waits for another, and steps can be put
together before the state that they start from is known. Several states may feed back on each other (a rotation), and
coefficients may depend on states that come before them in such a chain (`Graph.chains`).

On a GPU time is cut into chunks that run side by side (`fused/cuda_chunks.py`). A CPU has fewer cores than a layer has units:
threads share the units of a chunk of time (`fused/scan.hpp`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.engines.fused import gpu_chunks
from recurra.engines.fused.engine import run_on_cpu, supports_cpu
from recurra.engines.fused.stages import plan
from recurra.engines.protocol import Run, Support, Weights, no
from recurra.types import Float, Int, Shape

LONG = 1024
"""Steps from which a GPU is faster in chunks, whatever the other sizes."""


class Scan:
    name = "scan"

    def priority(self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> int:
        """Before `fused` (30) where that leaves a machine idle: on a GPU a long sequence, on a CPU one of fewer batch rows than
        threads. In a short one what counts is the time of a call, and there both are alike."""
        if device.type == "cpu":
            return 40 if torch.get_num_threads() > shape.B and shape.T * shape.H >= 2**16 else 5
        return 40 if shape.T >= LONG else 5

    def supports(
        self, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
    ) -> Support:
        if cell.graph.obstacle_to_scan:
            return no(f"{cell.name} {cell.graph.obstacle_to_scan}")
        if device.type != "cuda":
            return supports_cpu(device, dtype)
        return gpu_chunks.supports(plan(cell.graph), device, dtype)

    def run(
        self,
        cell: Cell,
        weights: Weights,
        x: Float[Tensor, "T B D"],
        initial: tuple[Float[Tensor, "_K B H"], ...],
        lengths: Int[Tensor, " B"] | None,
        *,
        record: bool = False,
    ) -> Run:
        if x.is_cuda:
            return gpu_chunks.run(cell, weights, x, initial, lengths, record=record)
        return run_on_cpu("scan.hpp", cell, weights, x, initial, lengths, record=record)
