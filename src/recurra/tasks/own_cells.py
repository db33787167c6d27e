"""Cells of the user's own in a run folder: kept as their graph, so that the run opens without the file that they were written
in, from any directory, and runs none of a stranger's code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from recurra.cells.catalogue import find_cell
from recurra.cells.notation import Cell
from recurra.cells.stored import fingerprint, restore_cell, store_cell
from recurra.errors import CellError, RecurraError, RunError
from recurra.runs.folder import RunFolder
from recurra.runs.reading import read_bounded

FORMAT = "recurra.cells/1"
LARGEST = 1 << 24


def names_of_cells(settings: Any) -> list[str]:
    """The cells that settings name which live in Python files."""
    model = getattr(settings, "model", None)
    named = [getattr(model, name, None) for name in ("cell", "decoder_cell")]
    return [each for each in dict.fromkeys(named) if isinstance(each, str) and ":" in each.partition("(")[0]]


def store_cells(settings: Any) -> dict[str, Any] | None:
    """What a run folder keeps of them; `None` where there are none."""
    cells, files = {}, {}
    for name in names_of_cells(settings):
        try:
            cells[name] = store_cell(find_cell(name))
        except CellError:  # it can be trained; opened again, it is read from its file
            continue
        files[name] = _digest(_file(name))
    return {"cells": cells, "files": files, "format": FORMAT} if cells else None


def open_cells(folder: RunFolder, settings: Any) -> dict[str, Cell]:
    """The cells of a run, by name. Their files are run only if the folder is trusted, and are then only compared, unless the
    folder keeps no graph."""
    stored, files = folder.cells.get("cells"), folder.cells.get("files")
    found = {}
    for name in names_of_cells(settings):
        if not isinstance(stored, dict) or name not in stored:
            if not folder.trust:
                raise RunError(
                    f"{folder.path} was trained with the cell {name[:200]}, and keeps no equations of it. To open it is to run "
                    "that file: read it, and if you trust it, add --trust (in Python trust=True)."
                )
            continue
        try:
            found[name] = restore_cell(stored[name])
        except RecurraError as error:
            raise RunError(f"{folder.path}: cell.json is damaged: {error}") from error
        if _has_changed(name, found[name], files, trust=folder.trust):
            folder.say(
                f"{_file(name)} is no longer as it was when the run was made; the equations that the run folder keeps are used."
            )
    return found


def check_sizes(settings: Any, weights: Mapping[str, Tensor], about: str) -> None:
    """Refuse sizes that the weights cannot have, before memory is taken for them."""
    numbers = sum(each.numel() for each in weights.values())
    model = getattr(settings, "model", None)
    for part in fields(model) if is_dataclass(model) else ():
        value = getattr(model, part.name)
        sizes = value if isinstance(value, tuple) else (value,)
        stacked = "layers" in part.name or part.name.startswith("deep_")
        for size in (each for each in sizes if type(each) is int):
            if size > max(1024, len(weights) if stacked else numbers):
                raise RunError(
                    f"{about}: recipe.json has model.{part.name}={str(size)[:40]}, and the weights are {numbers:,} numbers in "
                    f"{len(weights)} tensors: they are of another model."
                )


def _has_changed(name: str, cell: Cell, files: Any, *, trust: bool) -> bool:
    """Whether the file is there and holds other equations; without trust it is not run: another digest is all that is known."""
    digest = _digest(_file(name))
    if not digest or not isinstance(files, dict) or digest == files.get(name):
        return False
    if not trust:
        return True
    try:
        return fingerprint(find_cell(name)) != fingerprint(cell)
    except RecurraError:
        return True


def _file(name: str) -> Path:
    return Path(name.partition("(")[0].rpartition(":")[0]).expanduser()


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(read_bounded(file, LARGEST)).hexdigest()
    except RunError:
        return ""
