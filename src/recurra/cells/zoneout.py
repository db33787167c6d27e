from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recurra.cells.notation import Cell, noise
from recurra.errors import OptionError, nearest


def zoneout(cell: Cell, p: float | Mapping[str, float]) -> Cell:
    """The cell, with each unit of each state left as it was with probability p at each training step.

    Krueger et al. 2017, Zoneout. When evaluating, the next state is the mean: p · old + (1 - p) · new. `p` may differ by
    state: `zoneout(lstm, {"h": 0.05, "c": 0.5})`.

    ```python
    layer = rc.Recurrent(rc.zoneout(rc.find_cell("lstm"), {"h": 0.05, "c": 0.5}), 3, 8)
    ```
    """
    shares = dict(p) if isinstance(p, Mapping) else dict.fromkeys(cell.states, p)
    for name, share in shares.items():
        if name not in cell.states:
            raise OptionError(f"zoneout: cell {cell.name!r} has no state {name!r}.{nearest(name, cell.states)}")
        if not 0 <= share < 1:
            raise OptionError(f"zoneout: p must lie in [0, 1); got {share} for {name!r}.")

    def zoned(x: Any, U: Any, *states: Any, **options: Any) -> tuple[Any, ...]:
        new = cell.function(x, U, *states, **options)
        result = []
        for name, old, value in zip(cell.states, states, new if isinstance(new, tuple) else (new,), strict=True):
            if name in shares:
                kept = noise(x, f"zoneout_{name}", chance=shares[name], scale=1.0, per="step")
                value = kept * old + (1 - kept) * value
            result.append(value)
        return tuple(result)

    return Cell(
        zoned,
        name=f"zoneout({cell.name}, {p})",
        states=cell.states,
        options=cell.options,
        bias=cell.bias,
        constraints=cell.constraints,
        equations=cell.equations,
    )
