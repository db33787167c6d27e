"""From a model to files in a folder, in the format that was asked for."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from recurra.errors import OptionError, choose_from
from recurra.export.exported import Exported, ExportedFile
from recurra.export.network import describe
from recurra.export.onnx import describe_graphs, write_onnx, write_whole_onnx
from recurra.export.weights import write_weights
from recurra.models.feedforward import Feedforward
from recurra.models.tree import TreeClassifier
from recurra.runs.disk import reason

FORMATS = ("onnx", "weights")


def export(
    model: nn.Module,
    to: str = "onnx",
    out: str | os.PathLike[str] = "exported",
    *,
    int8: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a layer or a model so that other programs can run it, and check what was written.

    - `model`: a `Recurrent`, or a model of `rc.models` that reads sequences. It is exported as it evaluates: without dropout.
    - `to`: `onnx` (a graph of one step and one of whole sequences, states in and out) or `weights` (safetensors, with the
      network as JSON).
    - `out`: the folder. `int8`: also with weights in 8 bits, and what that costs.
    - `facts`: what a user of the file must know besides, such as a vocabulary: plain values that JSON can hold.

    ```python
    model = rc.models.LanguageModel(65, rc.Recurrent("lstm", 16, 32))
    found = rc.export(model, "onnx", out="model")
    [(file.name, file.difference) for file in found.files]
    ```
    """
    choose_from("export: format", to, FORMATS)
    if int8 and to == "weights":
        raise OptionError("export: int8 is for onnx and c; weights are kept as they are.")
    folder, told = Path(out), dict(facts or {})
    model = copy.deepcopy(model).cpu().eval()
    try:
        if isinstance(model, Feedforward | TreeClassifier):
            return _export_whole(model, to, folder, told, int8)
        networks = describe(model)
        folder.mkdir(parents=True, exist_ok=True)
        writers: dict[str, Callable[[], list[ExportedFile]]] = {
            "onnx": lambda: write_onnx(networks, folder, told | {"graphs": describe_graphs(networks)}, int8=int8),
            "weights": lambda: write_weights(model, networks, folder, told),
        }
        return Exported(folder, to, tuple(writers[to]()))
    except OSError as error:
        raise OptionError(f"export: {folder} cannot be written ({reason(error)}). Choose another place.") from error


def _export_whole(model: nn.Module, to: str, folder: Path, facts: Mapping[str, Any], int8: bool) -> Exported:
    """Models that read examples or trees have no steps and no state: one graph, in ONNX."""
    if to != "onnx" or int8:
        asked = "int8" if int8 else to
        raise OptionError(
            f"export: {asked} is for networks that read sequences; {type(model).__name__} leaves as onnx."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return Exported(folder, to, tuple(write_whole_onnx(model, folder, facts)))
