"""From a model to files in a folder, in the format that was asked for."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from recurra.errors import OptionError, choose_from
from recurra.export.c import write_c
from recurra.export.exported import Exported, ExportedFile
from recurra.export.network import Network, describe
from recurra.export.onnx import describe_graphs, write_facts, write_onnx, write_whole_onnx
from recurra.export.weights import write_weights
from recurra.models.feedforward import Feedforward
from recurra.models.tree import TreeClassifier
from recurra.runs.disk import reason

FORMATS = ("onnx", "c", "weights")


def export(
    model: nn.Module,
    to: str = "onnx",
    out: str | os.PathLike[str] = "exported",
    *,
    int8: bool = False,
    name: str = "model",
    own_math: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a layer or a model so that other programs can run it, and check what was written.

    - `model`: a `Recurrent`, or a model of `rc.models` that reads sequences. It is exported as it evaluates: without dropout.
    - `to`: `onnx` (a graph of one step and one of whole sequences, states in and out), `c` (one header and one source in C99,
      of a network that streams) or `weights` (safetensors, with the network as JSON).
    - `out`: the folder. `int8`: matrices in 8 bits (ONNX: in a file beside the whole one), and what that costs.
    - `name`, `own_math`: of C: what its functions begin with, and whether it does without `math.h`.
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
    if to != "c" and (own_math or name != "model"):
        raise OptionError(f"export: name and own_math are for c, and {to} was asked for. Leave them out.")
    folder, told = Path(out), dict(facts or {})
    model = copy.deepcopy(model).cpu().eval()
    found = _export(model, to, folder, told, int8=int8, name=name, own_math=own_math)
    return replace(found, notes=(*found.notes, *_left_behind(model)))


def _export(
    model: nn.Module, to: str, folder: Path, told: dict[str, Any], *, int8: bool, name: str, own_math: bool
) -> Exported:
    try:
        if isinstance(model, Feedforward | TreeClassifier):
            return _export_whole(model, to, folder, told, int8)
        networks = describe(model)
        folder.mkdir(parents=True, exist_ok=True)
        if to == "c":
            made = _export_c(networks, folder, told, name=name, int8=int8, own_math=own_math)
        elif to == "weights":
            made = Exported(folder, to, tuple(write_weights(model, networks, folder, told)))
        else:
            told["graphs"] = describe_graphs(networks)
            made = Exported(folder, to, tuple(write_onnx(networks, folder, told, int8=int8)))
        return made
    except OSError as error:
        raise OptionError(f"export: {folder} cannot be written ({reason(error)}). Choose another place.") from error


def _left_behind(model: Any) -> Iterator[str]:
    """What a model predicts with besides the network that is written."""
    others, share = len(getattr(model, "others", ())), float(getattr(model, "share", 0.0))
    if others:
        yield f"This is the first of {others + 1} networks; the run predicts with the mean of their probabilities."
    if share == 1:
        yield "The network is exported; the run itself predicts with its baseline alone, and the network has no part in that."
    elif share:
        yield f"The network alone is exported; the run itself predicts with {share:.0%} of a baseline mixed in."


def _export_whole(model: nn.Module, to: str, folder: Path, facts: Mapping[str, Any], int8: bool) -> Exported:
    """Models that read examples or trees have no steps and no state: one graph, in ONNX."""
    if to != "onnx" or int8:
        asked = "int8" if int8 else to
        raise OptionError(
            f"export: {asked} is for networks that read sequences; {type(model).__name__} leaves as onnx."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return Exported(folder, to, tuple(write_whole_onnx(model, folder, facts)))


def _export_c(networks: Mapping[str, Network], folder: Path, facts: Mapping[str, Any], **options: Any) -> Exported:
    network = networks.get("model")
    if network is None:
        raise OptionError("export: c is for one network that streams; a translator has two. Its steps leave as onnx.")
    made = write_c(network, folder, facts={}, **options)
    difference = None if made.agreement is None else made.agreement.error
    header, source = made.files
    files = (
        ExportedFile(header.name, header.stat().st_size, "what a program includes"),
        ExportedFile(source.name, source.stat().st_size, "the network: weights, reset, step, chunk", difference),
        write_facts(folder, facts),
    )
    return Exported(folder, "c", files, tuple(made.measured()))
