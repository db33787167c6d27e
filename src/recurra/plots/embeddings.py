"""A map of tokens: those whose vectors are alike lie near each other."""

from __future__ import annotations

from typing import Any

from recurra.analysis.embeddings import Embeddings
from recurra.plots.figure import COLOURS, inks, painter
from recurra.plots.labels import Room


@painter(Embeddings, (11, 9))
def paint_embeddings(axis: Any, found: Embeddings, *, most: int = 120) -> None:
    """At most so many tokens, the most frequent ones."""
    chosen = found.most_frequent(most)
    places = found.map[chosen].double().numpy()
    axis.scatter(*places.T, s=24, color=COLOURS[0], alpha=0.8)
    title = f"{len(chosen)} tokens; the two directions hold {found.shown:.0%} of the differences"
    axis.margins(0.08)
    axis.set(xlabel="first principal component", ylabel="second principal component", title=title)
    axis.grid(alpha=0.4)
    room, ink = Room(axis), inks(axis)[1]
    room.keep_free(places, points=3)
    for k, place in zip(chosen, places, strict=True):
        name = found.names[k]
        room.write(name if any(map(str.isalnum, name)) else repr(name), [place], fontsize=12, color=ink)
