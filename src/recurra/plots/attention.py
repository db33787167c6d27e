"""Attention as shades: a row for each token of the target, a column for each token of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurra.analysis.attention import Attention
from recurra.plots.figure import painter


@painter(Attention, lambda attention: (2.5 + 0.32 * len(attention.source), 1.8 + 0.32 * len(attention.target)))
def paint_attention(axis: Any, attention: Attention, *, title: str = "") -> None:
    shades = axis.imshow(attention.weights.numpy(), cmap="cividis", vmin=0, vmax=1, aspect="equal")
    turn = 90 if any(len(token) > 2 for token in attention.source) else 0
    axis.set_xticks(range(len(attention.source)), _visible(attention.source), rotation=turn)
    axis.set_yticks(range(len(attention.target)), _visible(attention.target))
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.tick_params(length=0, labelsize=12)
    axis.set(xlabel="source", ylabel="target", title=title)
    axis.figure.colorbar(shades, ax=axis, shrink=0.7, label="weight")


def _visible(tokens: Sequence[str]) -> list[str]:
    return [token.replace(" ", "␣").replace("\n", "⏎") or "∅" for token in tokens]
