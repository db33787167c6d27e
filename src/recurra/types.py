"""What passes between the rooms: the result of a layer, the state, and the legend of axes.

Axes, everywhere: B batch, T time, D input, H hidden, G gates, L layers, V vocabulary; K is how many steps back a
state is remembered. Users see batch first `[B, T, D]`; engines work time first `[T, B, D]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torch import Tensor
from torch.utils._pytree import register_dataclass

if TYPE_CHECKING:
    from jaxtyping import Float, Int
else:
    try:
        from jaxtyping import Float, Int
    except ImportError:  # axes are documentation unless the tests check them

        class Float:
            def __class_getitem__(cls, item: Any) -> Any:
                return item[0]

        Int = Float

CellState = tuple[Tensor, ...]
"""The state of one layer in one direction, in the order of the cell's arguments. Each is `[B, H]`, or `[B, K, H]`
(oldest first) for a state that the cell reads K > 1 steps back."""

State = tuple[tuple[CellState, ...], ...]
"""`state[layer][direction][i]`: always three levels of tuples, whatever the cell."""

Record = tuple[tuple[dict[str, Tensor], ...], ...]
"""`record[layer][direction][name]`: each state and each named gate at every step, `[B, T, H]`."""


class Shape(NamedTuple):
    """The sizes that an engine is asked about."""

    B: int
    T: int
    D: int
    H: int


@dataclass(frozen=True)
class Trace:
    """What a recurrent layer gives back.

    - `outputs`: the last layer's outputs at every step, `[B, T, H]` (`2H` for two concatenated directions). Zero past a
      sequence's end.
    - `final`: the state after the true last step of each sequence; `final[layer][direction][i]`. It can be passed back as
      `state` to go on where this call stopped.
    - `record`: with `record=True`, every state and gate by name; otherwise `None`.

    ```python
    layer = rc.Recurrent("lstm", 3, 8)
    trace = layer(torch.randn(2, 5, 3), record=True)
    trace.outputs, trace.final[0][0], trace.record[0][0]["c"]       # [2, 5, 8], (h, c) of the last step, c at every step
    layer(torch.randn(2, 5, 3), trace.final)                        # goes on
    ```
    """

    outputs: Float[Tensor, "B T H"]
    final: State
    record: Record | None = None


register_dataclass(Trace)  # `torch.export` takes it apart and puts it together
Value = TypeVar("Value")

MOST, DEEPEST = 10_000_000, 100
"""Of settings: how large a size, or how many of something, may be; and how many layers."""


def setting(
    default: Value,
    about: str,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
    most: int | None = None,
    choices: Iterable[str] | None = None,
    read: Callable[[Any], Any] | None = None,
    idle: Callable[[Any], str | None] | None = None,
    added: bool = False,
) -> Value:
    """A field of a configuration, declared once: its default, one line about it, and what follows from the declaration.

    - `low`, `high`: the smallest and the largest value; `above`, `below`: bounds that it must not reach.
    - `most`: the largest size that makes sense at all, of what memory or time is taken for.
    - `choices`: the names that it may be. `read`: a function that raises where the value cannot be read.
    - `idle`: the whole configuration to the reason why this setting has no effect beside the others, or `None`. Giving a
      setting that is idle is an error; having one is not.
    - `added`: run folders of earlier versions lack it, and then it is the default.
    """
    known = None if choices is None else tuple(choices)
    bounds = {"low": low, "above": above, "high": high, "below": below, "most": most}
    made: Value = field(
        default=default,
        metadata={"about": about, "bounds": bounds, "choices": known, "read": read, "idle": idle, "added": added},
    )
    return made


__all__ = ["DEEPEST", "MOST", "CellState", "Float", "Int", "Record", "Shape", "State", "Tensor", "Trace", "setting"]
