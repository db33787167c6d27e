"""A run says which engine made its numbers where that is not the one that it would usually be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from recurra.engines.fused.build import find_compiler
from recurra.layers.recurrent import Recurrent


def note_engine(model: Any, batch_size: int, rows: Sequence[dict[str, Any]], step: int) -> dict[str, Any] | None:
    """A row for the metrics, if the engine is another than the rows before tell of: without a compiler `auto` cannot take the
    fused engine, and another one rounds otherwise."""
    layers = [each for each in model.modules() if isinstance(each, Recurrent)] if isinstance(model, nn.Module) else []
    before = next((row["engine"] for row in reversed(rows) if isinstance(row.get("engine"), str)), "")
    if not layers or layers[0].engine != "auto" or layers[0].stack[0][0].W.is_cuda:
        return None
    found = "" if find_compiler() is not None else layers[0].explain(batch_size).engine.name
    if found == before or (not found and before and before == layers[0].explain(batch_size).engine.name):
        return None
    why = "there is no C++ compiler on this machine" if found else "there is a C++ compiler now"
    return {"step": step, "engine": found or layers[0].explain(batch_size).engine.name, "engine_because": why}


def engine_sentence(row: dict[str, Any]) -> str:
    return f"{row['engine']} from step {row['step']} on: {row['engine_because']}, and its numbers differ in rounding"
