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
from recurra.export.onnx import describe_graphs, write_onnx
from recurra.export.weights import write_weights
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
        networks = describe(model)
        folder.mkdir(parents=True, exist_ok=True)
        writers: dict[str, Callable[[], list[ExportedFile]]] = {
            "onnx": lambda: write_onnx(networks, folder, told | {"graphs": describe_graphs(networks)}, int8=int8),
            "weights": lambda: write_weights(model, networks, folder, told),
        }
        return Exported(folder, to, tuple(writers[to]()))
    except OSError as error:
        raise OptionError(f"export: {folder} cannot be written ({reason(error)}). Choose another place.") from error
