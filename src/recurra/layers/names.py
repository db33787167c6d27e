"""Names in state dicts: which rows of the packed weights belong to which gate, and of which equations they are.

They travel as one tensor of bytes (JSON) under torch's own key for what a module saves besides its weights, so that they survive
safetensors and `torch.load(..., weights_only=True)`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from recurra.cells.notation import Cell
from recurra.cells.stored import equations_digest
from recurra.errors import ShapeError, listed

KEY = "_extra_state"
_PARTS = {"drives": "x", "matrices": "U", "states": "state"}
_ROWS = {"W": "drives", "b": "drives", "U": "matrices"}


def encode_names(cell: Cell) -> Tensor:
    """What a state dict says about the weights of a cell."""
    told = {**_names(cell), "cell": cell.name[:200], "equations": equations_digest(cell.graph)}
    return torch.tensor(list(json.dumps(told, sort_keys=True).encode()), dtype=torch.uint8)


def _names(cell: Cell) -> dict[str, list[str]]:
    graph = cell.graph
    states = [state.name for state in graph.states]
    return {"drives": list(graph.drives), "matrices": list(graph.matrices), "states": states}


def read_names(found: Any, about: str) -> dict[str, Any]:
    """The opposite of `encode_names`."""
    try:
        told = json.loads(bytes(found.cpu().tolist()))
        if all(isinstance(each, str) for part in _PARTS for each in told[part]) and isinstance(told["equations"], str):
            return dict(told)
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ShapeError(
        f"{about}{KEY} does not hold the names of a cell. The state dict is damaged, or of another module."
    )


def fit_names(cell: Cell, state_dict: dict[str, Any], prefix: str) -> None:
    """Bring the weights of a state dict into this cell's order, by name; refuse them where the names are others.

    A state dict of before has no names, and is taken in the order in which it is.
    """
    found = state_dict.get(f"{prefix}{KEY}")
    if found is None:
        state_dict[f"{prefix}{KEY}"] = encode_names(cell)
        return
    told, own, where = read_names(found, prefix), _names(cell), prefix.rstrip(".") or "the state dict"
    theirs = str(told.get("cell"))[:80]
    for part, owner in _PARTS.items():
        if sorted(told[part]) != sorted(own[part]):
            raise ShapeError(
                f"{where} has weights of cell {theirs!r} with the {_spelt(owner, told[part])}; cell {cell.name!r} has "
                f"{_spelt(owner, own[part])}. Load them into the cell that they were saved from, or use its names in yours."
            )
    if any(told[part] != own[part] for part in _PARTS):
        _reorder(told, own, state_dict, prefix, cell)
    if told["equations"] != equations_digest(cell.graph):
        warnings.warn(
            f"{where} has weights of cell {theirs!r}, whose equations are not those of cell {cell.name!r}; they are loaded by "
            "name.",
            stacklevel=2,
        )


def _spelt(owner: str, names: Sequence[str]) -> str:
    if owner == "state":
        return f"states {listed(names)}"
    return f"{owner}.NAME of {listed(names) or 'none'}"


def _reorder(
    told: Mapping[str, Any], own: Mapping[str, list[str]], state_dict: dict[str, Any], prefix: str, cell: Cell
) -> None:
    if any(key.startswith(f"{prefix}parametrizations.") for key in state_dict):
        raise ShapeError(
            f"{prefix.rstrip('.') or 'the state dict'} has parametrized weights in the order {listed(told['drives'])}; cell "
            f"{cell.name!r} has {listed(own['drives'])}. Write its lines in the order of then, or remove the parametrizations "
            "before you save."
        )
    for key, part in _ROWS.items():
        value = state_dict.get(prefix + key)
        if value is not None and told[part] and len(value) % len(told[part]) == 0:
            blocks = value.unflatten(0, (len(told[part]), -1))
            state_dict[prefix + key] = blocks[[told[part].index(name) for name in own[part]]].flatten(0, 1)
    first = {name: state_dict.get(f"{prefix}initial.{k}") for k, name in enumerate(told["states"])}
    for k, name in enumerate(own["states"]):
        if first[name] is not None:
            state_dict[f"{prefix}initial.{k}"] = first[name]


def without_names(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights alone."""
    return {key: value for key, value in state_dict.items() if not key.endswith(KEY)}


def in_another_order(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> str:
    """The first layer whose weights have the names of the model's in another order, as moments of an optimiser then do too."""
    for key, mine in own.items():
        if key.endswith(KEY) and key in weights:
            prefix = key.removesuffix(KEY)
            told, names = read_names(weights[key], prefix), read_names(mine, prefix)
            if any(told[part] != names[part] for part in _PARTS):
                return prefix.rstrip(".") or "the layer"
    return ""


__all__ = ["KEY", "encode_names", "fit_names", "in_another_order", "read_names", "without_names"]
