"""A checkpoint: weights, what a resume needs, and a manifest that betrays every changed byte. Never pickle."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from recurra.errors import RunError
from recurra.runs.disk import pack, reason, to_json, unpack

WEIGHTS, TENSORS, FACTS, MANIFEST = "weights.safetensors", "resume.safetensors", "resume.json", "manifest.json"
FORMAT = 1

_KNOWN = """
    float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 bool
    int64 int32 int16 int8 uint64 uint32 uint16 uint8
"""
_NATIVE = {getattr(torch, name) for name in _KNOWN.split()}
_ODD = (
    "recurra"  # where a file's metadata lists the tensors that are kept as bytes, because safetensors lacks their type
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything that a run needs to go on as if it had never stopped.

    - `step`: how many updates have been made.
    - `weights`: the model's, by name.
    - `tensors`: the optimiser's moments, random states, carried hidden state, averaged weights.
    - `facts`: numbers and words: position in the stream, the optimiser's scalars, the best value so far. What JSON
      cannot give back is refused; tuples come back as lists; and a text that reads "NaN", "Infinity" or "-Infinity"
      comes back as that number.
    """

    step: int
    weights: dict[str, Tensor]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors called `name.…`, without that."""
        return {
            key.removeprefix(f"{name}."): value for key, value in self.tensors.items() if key.startswith(f"{name}.")
        }

    @property
    def evaluated(self) -> dict[str, Tensor]:
        """The weights that are evaluated: the averaged ones, if there are any."""
        return self.part("average") or self.weights

    def weights_only(self) -> Checkpoint:
        """What using the model needs, without what going on with its training does."""
        return Checkpoint(self.step, self.evaluated)

    def to_files(self) -> dict[str, bytes]:
        """The files of the checkpoint, by name; the manifest last."""
        facts = to_json({"facts": pack(self.facts), "step": self.step}, "facts")
        files = {
            WEIGHTS: _to_bytes(self.weights, "weights"),
            TENSORS: _to_bytes(self.tensors, "tensors"),
            FACTS: facts,
        }
        return files | {MANIFEST: _manifest(files, self.step)}


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, if every byte of it is as it was written; otherwise an error that says what is not."""
    try:
        files = _read(folder)
    except OSError as error:
        name = Path(error.filename).name if error.filename else folder.name
        raise RunError(f"{name}: {reason(error)}") from error
    _verify(files)
    try:
        kept = json.loads(files[FACTS])
        if files.pop(MANIFEST) != _manifest(files, kept["step"]):  # the files are sound: it is the manifest that is not
            raise RunError(f"{MANIFEST} is damaged")
        weights, tensors = _from_bytes(files[WEIGHTS]), _from_bytes(files[TENSORS])
        return Checkpoint(step=kept["step"], weights=weights, tensors=tensors, facts=unpack(kept["facts"]))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{folder.name} cannot be read: {error}") from error


def restore_weights(module: nn.Module, weights: dict[str, Tensor], about: str) -> None:
    """Load weights into a module that has exactly these names, shapes and types; otherwise change nothing.

    - `about`: what the weights are, for the message: `runs/a/checkpoints/last`.
    """
    own: dict[str, Tensor] = module.state_dict()
    for name, tensor in own.items():
        expected = f"the model expects {name} of shape {list(tensor.shape)} ({_name(tensor.dtype)})"
        if name not in weights:
            raise RunError(f"{about} is of another model: {expected}; it has no such weight.")
        found = weights[name]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise RunError(
                f"{about} is of another model: {expected}; found {list(found.shape)} ({_name(found.dtype)})."
            )
    for name, found in weights.items():
        if name not in own:
            raise RunError(
                f"{about} is of another model: it has {name} of shape {list(found.shape)}, which the model lacks."
            )
    module.load_state_dict(weights, strict=True)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _manifest(files: dict[str, bytes], step: int) -> bytes:
    return to_json({"files": _listing(files), "format": FORMAT, "step": step}, MANIFEST)


def _listing(files: dict[str, bytes]) -> dict[str, Any]:
    return {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}


def _read(folder: Path) -> dict[str, bytes]:
    """All files through one handle on the folder: a writer that renames it meanwhile cannot mix two checkpoints."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files = {}
        for name in (WEIGHTS, TENSORS, FACTS, MANIFEST):
            with open(name, "rb", opener=lambda path, flags: os.open(path, flags, dir_fd=handle)) as file:
                files[name] = file.read()
        return files
    finally:
        os.close(handle)


def _verify(files: dict[str, bytes]) -> None:
    found = dict(files)
    manifest = found.pop(MANIFEST)
    try:
        said = json.loads(manifest)
        listed = {name: said["files"][name] for name in found}
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{MANIFEST} is damaged") from None
    if said.get("format") != FORMAT:
        raise RunError(f"{MANIFEST} has format {said.get('format')!r}, and this version of Recurra reads {FORMAT}")
    for name, truth in _listing(found).items():
        if listed[name] != truth:
            raise RunError(f"{name} is damaged: its size or checksum is not that of {MANIFEST}")


def _to_bytes(tensors: dict[str, Tensor], about: str) -> bytes:
    ready: dict[str, Tensor] = {}
    odd: dict[str, Any] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized or name == "__metadata__":
            raise TypeError(
                f"{about}[{name!r}] cannot be saved: only dense tensors that hold values are, by any other name."
            )
        # resolve: a conjugate is a flag on memory that holds the original, and safetensors writes the memory
        dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        if dense.dtype not in _NATIVE:
            odd[name] = {"dtype": _name(dense.dtype), "shape": list(dense.shape)}
            dense = dense.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)
        memory = dense.untyped_storage().data_ptr()
        ready[name] = dense.clone() if memory in seen else dense
        seen.add(memory)
    return bytes(save(ready, metadata={_ODD: json.dumps(odd, sort_keys=True)} if odd else None))


def _from_bytes(data: bytes) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = load(data)
    size = int.from_bytes(data[:8], "little")
    odd = json.loads(json.loads(data[8 : 8 + size]).get("__metadata__", {}).get(_ODD, "{}"))
    for name, kept in odd.items():
        tensors[name] = tensors[name].view(getattr(torch, kept["dtype"])).reshape(kept["shape"])
    return tensors
