"""Success over length, a line for each cell."""

from __future__ import annotations

from typing import Any

from recurra.analysis.memory_lengths import SOLVED, MemoryComparison
from recurra.plots.figure import COLOURS, DASHES, painter


@painter(MemoryComparison)
def paint_memory(axis: Any, found: MemoryComparison) -> None:
    for k, cell in enumerate(dict.fromkeys(row.cell for row in found.rows)):
        own = sorted((row for row in found.rows if row.cell == cell), key=lambda row: row.length)
        lengths, means = [row.length for row in own], [sum(row.scores) / len(row.scores) for row in own]
        look = {"color": COLOURS[k % 6], "ls": DASHES[k % 4], "marker": "osD^vX"[k % 6]}
        axis.plot(lengths, means, lw=2.5, label=cell, **look)
        for row in own:
            axis.plot([row.length] * len(row.scores), row.scores, ls="", marker=".", color=COLOURS[k % 6], alpha=0.5)
    axis.axhline(SOLVED, lw=1.2, color=COLOURS[7], label=f"solved: {SOLVED:g}")
    axis.set_xscale("log")
    ticks = sorted({row.length for row in found.rows})
    axis.set_xticks(ticks, [str(each) for each in ticks])
    axis.minorticks_off()
    axis.set(xlabel="length", ylabel="score: 0 without memory, 1 perfect", ylim=(-0.05, 1.05))
    axis.set_title(f"{found.task}: success over length, {found.steps} updates")
    axis.grid(alpha=0.6)
    axis.legend()
