"""Which engine runs: by name, or `auto`, which asks the engines in order and can say why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from recurra.cells.notation import Cell
from recurra.engines.eager import Eager
from recurra.engines.fused.engine import Fused
from recurra.engines.newton import Newton
from recurra.engines.protocol import Engine, Support
from recurra.engines.scan import Scan
from recurra.engines.vendor import Vendor
from recurra.errors import EngineError, choose_from
from recurra.types import Shape

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Fused(), Scan(), Vendor(), Newton(), Eager())}
"""Every engine by its name. `auto` asks them by their own `priority`."""


@dataclass(frozen=True)
class Choice:
    """The engine that would run, and what each engine answered."""

    asked: str
    engine: Engine
    answers: dict[str, Support]

    def __str__(self) -> str:
        rows = [f"{self.engine.name} runs this ({'chosen by auto' if self.asked == 'auto' else 'asked for by name'})."]
        for name, answer in self.answers.items():
            said = "can run it" if answer else f"cannot: {answer.reason}"
            rows.append(f"  {name:<8} {said}{f': {answer.how}' if answer.how else ''}")
        return "\n".join(rows)


def check_engine_name(name: str) -> str:
    return choose_from("engine", name, ["auto", *ENGINES])


def computed_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The dtype that a run computes in, which is what engines are asked about: inside `torch.autocast`, autocast's.

    On a CPU it is the weights': no kernel there computes in less, and layers leave autocast while they run.
    """
    if device.type != "cpu" and torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return dtype


def order(cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape) -> tuple[str, ...]:
    """The names in the order in which `auto` asks: the first yes runs."""
    return _order(cell, device, dtype, shape, torch.get_num_threads())


@lru_cache(maxsize=4096)
def _order(cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, threads: int) -> tuple[str, ...]:
    """`threads` is what priorities depend on besides what they are given."""
    return tuple(sorted(ENGINES, key=lambda name: -ENGINES[name].priority(cell, device, dtype, shape)))


def choose(
    asked: str, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
) -> Engine:
    """The engine for this cell, device, dtype and shape. Only `auto` may choose; a named engine that cannot run raises."""
    names = order(cell, device, dtype, shape) if asked == "auto" else (check_engine_name(asked),)
    reason = ""
    for name in names:
        answer = ENGINES[name].supports(cell, device, dtype, shape, record=record)
        if answer:
            return ENGINES[name]
        reason = answer.reason
    raise EngineError(f"engine {asked!r} cannot run cell {cell.name!r}: {reason}. Use engine='auto'.")


def explain(
    asked: str, cell: Cell, device: torch.device, dtype: torch.dtype, shape: Shape, *, record: bool = False
) -> Choice:
    """What `choose` does here, with every engine's answer."""
    answers = {name: engine.supports(cell, device, dtype, shape, record=record) for name, engine in ENGINES.items()}
    return Choice(asked, choose(asked, cell, device, dtype, shape, record=record), answers)
