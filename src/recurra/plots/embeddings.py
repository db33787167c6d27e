"""A map of tokens: those whose vectors are alike lie near each other."""

from __future__ import annotations

from typing import Any

from recurra.analysis.embeddings import Embeddings
from recurra.plots.figure import COLOURS, inks, painter


@painter(Embeddings, (11, 9))
def paint_embeddings(axis: Any, found: Embeddings, *, most: int = 120) -> None:
    """At most so many tokens, the most frequent ones."""
    chosen = found.most_frequent(most)
    x, y = found.map[chosen].T.numpy()
    axis.scatter(x, y, s=14, color=COLOURS[0], alpha=0.6)
    for k, a, b in zip(chosen, x, y, strict=True):
        name = found.names[k]
        axis.annotate(name if name.isprintable() and name.strip() else repr(name), (a, b), color=inks(axis)[1],
                      fontsize=11, xytext=(3, 2), textcoords="offset points")  # fmt: skip
    title = f"{len(chosen)} tokens; the two directions hold {found.shown:.0%} of the differences"
    axis.set(xlabel="first principal component", ylabel="second principal component", title=title)
    axis.grid(alpha=0.4)
