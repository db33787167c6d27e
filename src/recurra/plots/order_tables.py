"""Perplexity over the number of parameters: tables of growing order, and a network."""

from __future__ import annotations

from typing import Any

from recurra.analysis.order_tables import OrderComparison
from recurra.plots.figure import COLOURS, painter, plain_ticks


@painter(OrderComparison)
def paint_order_tables(axis: Any, found: OrderComparison) -> None:
    tables = [row for row in found.rows if row.order is not None]
    sizes, values = [float(row.parameters) for row in tables], [row.perplexity for row in tables]
    axis.loglog(sizes, values, color=COLOURS[1], ls="--", marker="s", lw=2, label="table of order k")
    for row, size, value in zip(tables, sizes, values, strict=True):
        axis.annotate(f"{row.order}", (size, value), xytext=(6, 6), textcoords="offset points", size=13)
    for row in found.rows:
        if row.order is None:
            axis.loglog(row.parameters, row.perplexity, color=COLOURS[0], marker="o", ms=11, ls="", label=row.name)
    axis.set(xlabel="parameters", ylabel="perplexity", title=f"Tables of order k, O(Vᵏ), V = {found.vocabulary}")
    plain_ticks(axis.xaxis, axis.yaxis)
    axis.grid(alpha=0.6)
    axis.legend()
