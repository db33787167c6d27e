"""Event logs as strings of symbols, for the automaton of a network that reads more than symbols.

An event has an activity, and may have a time and attributes. An automaton reads names alone: the network is given one vector for
each, and what the name does not say is held at what is usual for it in the training cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from recurra.data.cases import Coded
from recurra.errors import DataError
from recurra.models.events import EventModel
from recurra.types import Float, Int

LONGEST = 200
"""Cases are read up to so many events."""

Naming = Callable[[Coded], Int[Tensor, " n"]]
"""The symbol of each event of a case; −1 where an event has none."""


@torch.no_grad()
def usual_vectors(model: EventModel, cases: Sequence[Coded], name: Naming, count: int) -> Float[Tensor, "K D"]:
    """What the recurrent layers read of each of `count` symbols: the activity and each attribute that most events of that symbol
    have, and the median of each feature of time."""
    symbols = torch.cat([name(case) for case in cases])
    what, times, attributes = (
        torch.cat(parts) for parts in zip(*((case.what, case.times, case.attributes) for case in cases), strict=True)
    )
    rows = []
    for k in range(count):
        own = symbols == k
        rows.append(
            model.embed(
                what[own].mode(0).values[None],
                times[own].median(0).values[None] if times.shape[1] else times[:1],
                attributes[own].mode(0).values[None],
            )
        )
    return torch.cat(rows)


def strings_of(cases: Sequence[Coded], name: Naming, *, cut: bool = False) -> Int[Tensor, "N T"]:
    """Cases as symbols, −1 after their last event; cases with an event that has no symbol are left out.

    - `cut`: they are read up to that event, where nothing depends on whether a case has ended there.
    """
    named = [name(case) for case in cases]
    known = [int((symbols >= 0).cumprod(0).sum()) for symbols in named]
    rows = [symbols[:n] for symbols, n in zip(named, known, strict=True) if n and (cut or n == len(symbols))]
    if not rows:
        raise DataError(f"none of {len(cases)} cases has only events that the training cases know. Give a larger log.")
    T = min(LONGEST, max(len(row) for row in rows) + 1)
    return torch.stack([torch.nn.functional.pad(row[:T], (0, T - min(T, len(row))), value=-1) for row in rows])


def draw_from(parts: Sequence[Int[Tensor, "N T"]]) -> Callable[[int, int], Int[Tensor, "N T"]]:
    """Some strings of a part; which part the seed says, so that those to build, choose and score on are never of the same."""

    def draw(count: int, seed: int) -> Int[Tensor, "N T"]:
        own = parts[seed % len(parts)]
        return own[torch.randperm(len(own), generator=torch.Generator().manual_seed(seed))[:count]]

    return draw
