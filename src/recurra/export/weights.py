"""Weights by name in safetensors, and the network as JSON: enough for a reader in any language to compute the same.

`network.json` lists the values of each network after what they are computed from (the kinds are those of
`recurra.export.network`), and the cells as `recurra.cells.stored` keeps them. A value names its tensors in
`weights.safetensors`; those of layer 0 are `0.W.NAME`, `0.b.NAME`, `0.U.NAME`, `0.parameter.NAME` and `0.initial.STATE`.
Where torch.nn or Keras has the same layers, their own names and orders of gates are in two further files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from recurra.cells.stored import store_cell
from recurra.errors import OptionError
from recurra.export.exported import ExportedFile
from recurra.export.network import Network, Value
from recurra.export.standard import find_standard
from recurra.layers.direction import Direction
from recurra.layers.recurrent import Recurrent
from recurra.runs.disk import replace_file, to_json

FORMAT = "recurra.network/1"


def write_weights(
    model: nn.Module, networks: Mapping[str, Network], folder: Path, facts: Mapping[str, Any]
) -> list[ExportedFile]:
    """The files, for a model and the networks that it consists of."""
    tensors: dict[str, Tensor] = {}
    cells: list[dict[str, Any]] = []
    told: dict[str, Any] = {"format": FORMAT, "facts": dict(facts), "networks": {}, "cells": cells}
    for name, network in networks.items():
        prefix = "" if name == "model" else f"{name}."
        told["networks"][name] = _store(network, prefix, tensors, cells)
    parts = {
        "weights.safetensors": (tensors, "every tensor by name"),
        "torch.safetensors": (_for_torch(model), "the recurrent layers as torch.nn names them"),
        "keras.safetensors": (_for_keras(model), "the recurrent layers as Keras orders them"),
    }
    files = [
        _write(folder / "network.json", to_json(told, "network", pretty=True), "the graph, to be read beside them")
    ]
    for name, (found, about) in parts.items():
        if found:
            ready = {each: tensor.detach().cpu().contiguous().clone() for each, tensor in found.items()}
            files.append(_write(folder / name, save(ready), about))
    return files


def _write(path: Path, content: bytes, about: str) -> ExportedFile:
    replace_file(path, content)
    return ExportedFile(path.name, len(content), about)


def _store(network: Network, prefix: str, tensors: dict[str, Tensor], cells: list[dict[str, Any]]) -> dict[str, Any]:
    values = network.values
    number = {value: k for k, value in enumerate(values)}
    rows = []
    for k, value in enumerate(values):
        row: dict[str, Any] = {"kind": value.kind, "size": value.size}
        if value.name:
            row["name"] = value.name
        if value.arguments:
            row["of"] = [number[each] for each in value.arguments]
        if value.factor > 1:
            row["factor"] = value.factor
        if value.weights:
            row["weights"] = {name: f"{prefix}value.{k}.{name}" for name in value.weights}
            tensors |= {f"{prefix}value.{k}.{name}": tensor for name, tensor in value.weights.items()}
        if value.direction is not None:
            stored = store_cell(value.direction.cell)
            if stored not in cells:
                cells.append(stored)
            row |= {"cell": cells.index(stored), "reverse": value.reverse, "weights": f"{prefix}{value.name}"}
            tensors |= {f"{prefix}{name}": tensor for name, tensor in _named(value).items()}
        rows.append(row)
    return {"values": rows, "outputs": {name: number[value] for name, value in network.outputs.items()}}


@torch.no_grad()
def _named(layer: Value) -> dict[str, Tensor]:
    """Every weight of a layer by the name that the equations give it."""
    direction = layer.direction
    assert direction is not None
    graph, H, first = direction.cell.graph, direction.hidden_size, layer.name
    found: dict[str, Tensor] = {}
    for k, name in enumerate(graph.drives):
        rows = slice(k * H, (k + 1) * H)
        found |= {f"{first}.W.{name}": direction.W[rows], f"{first}.b.{name}": direction.b[rows]}
    found |= {f"{first}.U.{name}": direction.matrix(name) for name in graph.matrices}
    found |= {f"{first}.parameter.{name}": value for name, value in direction.unit_values().items()}
    states = zip(graph.states, direction.first_state(1), strict=True)
    return found | {f"{first}.initial.{state.name}": value[:, 0] for state, value in states}


def _recurrent_layers(model: nn.Module) -> list[tuple[str, Recurrent]]:
    return [(name, each) for name, each in model.named_modules() if isinstance(each, Recurrent)]


def _for_torch(model: nn.Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, layers in _recurrent_layers(model):
        try:
            module = layers.to_torch()
        except OptionError:
            continue  # torch.nn has no such layers
        found |= {f"{name}.{each}".lstrip("."): tensor for each, tensor in module.state_dict().items()}
    return found


def _for_keras(model: nn.Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, layers in _recurrent_layers(model):
        for k, directions in enumerate(layers.stack):
            for d, direction in enumerate(directions):
                prefix = f"{name}.{k}{'.backward' if d else ''}".lstrip(".")
                found |= {f"{prefix}.{each}": tensor for each, tensor in _keras_layer(direction).items()}
    return found


_KERAS_GATES = {"RNN": ("h",), "LSTM": ("i", "f", "c", "o"), "GRU": ("z", "r", "n")}


@torch.no_grad()
def _keras_layer(direction: Direction) -> dict[str, Tensor]:
    """`kernel`, `recurrent_kernel` and `bias` of SimpleRNN, LSTM or GRU; nothing for any other cell."""
    standard = find_standard(direction.cell.graph)
    if standard is None:
        return {}
    W, R, b, inner = standard.weights(direction, _KERAS_GATES[standard.operator])
    bias = torch.stack([b, inner]) if standard.resets_after else b
    return {"kernel": W.T, "recurrent_kernel": R.T, "bias": bias}
