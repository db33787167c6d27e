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

from recurra.errors import RunError, ShapeError
from recurra.layers.names import without_names
from recurra.runs.disk import pack, reason, to_json, unpack
from recurra.runs.reading import fits_in_memory, read_bounded

WEIGHTS, TENSORS, FACTS, MANIFEST = "weights.safetensors", "resume.safetensors", "resume.json", "manifest.json"
FORMAT = 2
"""Of the manifest. 1 did not say which run and which best checkpoint it belongs with."""

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
    def done(self) -> str | None:
        """Why training has ended for good; `None`: it has not."""
        why = self.facts["done"]
        if why is not None and not isinstance(why, str):
            raise RunError(f"the checkpoint of step {self.step} is damaged: why training ended is no text.")
        return why

    @property
    def evaluated(self) -> dict[str, Tensor]:
        """The weights that are evaluated: the averaged ones, if there are any."""
        return self.part("average") or self.weights

    def weights_only(self) -> Checkpoint:
        """What using the model needs, without what going on with its training does."""
        return Checkpoint(self.step, self.evaluated)

    def to_files(self, **belongs: str) -> dict[str, bytes]:
        """The files of the checkpoint, by name; the manifest last, with what the checkpoint belongs to."""
        facts = to_json({"facts": pack(self.facts), "step": self.step}, "facts")
        files = {
            WEIGHTS: _to_bytes(self.weights, "weights"),
            TENSORS: _to_bytes(self.tensors, "tensors"),
            FACTS: facts,
        }
        return files | {MANIFEST: _manifest(files, self.step, belongs)}


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, if every byte of it is as it was written; otherwise an error that says what is not."""
    return open_checkpoint(folder)[0]


def open_checkpoint(folder: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint in a folder, and its manifest."""
    try:
        files = _read(folder)
    except OSError as error:
        name = Path(error.filename).name if error.filename else folder.name
        raise RunError(f"{name}: {reason(error)}") from error
    said = _verify(files)
    try:
        kept = json.loads(files[FACTS])
        step, facts = kept["step"], unpack(kept["facts"])
        belongs = {name: said[name] for name in BELONGS if name in said}
        found = files.pop(MANIFEST)
        # the files are sound: if anything is not, it is the manifest
        if found != _manifest(files, step, belongs, said["format"]) or not 0 <= step < 2**62 or type(step) is not int:
            raise RunError(f"{MANIFEST} is damaged")
        if not isinstance(facts, dict):
            raise TypeError("its facts are no object")
        weights, tensors = _from_bytes(files[WEIGHTS]), _from_bytes(files[TENSORS])
        return Checkpoint(step=step, weights=weights, tensors=tensors, facts=facts), said
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, MemoryError) as error:
        raise RunError(f"{folder.name} cannot be read: {str(error)[:200]}") from error


def read_manifest(folder: Path) -> tuple[dict[str, Any], str] | None:
    """What the manifest of a checkpoint says, and its digest, with no look at the other files; `None` where it cannot be read."""
    try:
        data = read_bounded(folder / MANIFEST, MOST_MANIFEST)
        said = json.loads(data)
    except (RunError, ValueError, RecursionError):
        return None
    return (said, _digest(data)) if isinstance(said, dict) and type(said.get("step")) is int else None


def restore_weights(module: nn.Module, weights: dict[str, Tensor], about: str) -> None:
    """Load weights into a module that has exactly these names, shapes and types; otherwise change nothing.

    - `about`: what the weights are, for the message: `runs/a/checkpoints/last`.
    """
    own = without_names(module.state_dict())
    for name, tensor in own.items():
        expected = f"the model expects {name} of shape {list(tensor.shape)} ({_name(tensor.dtype)})"
        if name not in weights:
            raise RunError(f"{about} is of another model: {expected}; it has no such weight.")
        found = weights[name]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise RunError(
                f"{about} is of another model: {expected}; found {list(found.shape)} ({_name(found.dtype)})."
            )
    for name, found in without_names(weights).items():
        if name not in own:
            raise RunError(
                f"{about} is of another model: it has {name} of shape {list(found.shape)}, which the model lacks."
            )
    try:
        module.load_state_dict(weights, strict=True)
    except ShapeError as error:
        raise RunError(f"{about} is of another model: {error}") from error


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


BELONGS = ("kind", "run", "best")
"""What a manifest may name: as what it was saved (last, best), the run (by the digest of its manifest), and the best checkpoint
that it goes with."""
MOST_MANIFEST = 1 << 20


def _manifest(files: dict[str, bytes], step: int, belongs: dict[str, str], form: int = FORMAT) -> bytes:
    return to_json({"files": _listing(files), "format": form, "step": step} | belongs, MANIFEST)


def _listing(files: dict[str, bytes]) -> dict[str, Any]:
    return {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def manifest_digest(files: dict[str, bytes]) -> str:
    """By what another checkpoint names this one."""
    return _digest(files[MANIFEST])


def _read(folder: Path) -> dict[str, bytes]:
    """All files through one handle on the folder: a writer that renames it meanwhile cannot mix two checkpoints. Sizes are
    compared before anything is read."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files: dict[str, bytes] = {}
        for name in (MANIFEST, WEIGHTS, TENSORS, FACTS):

            def inside(path: str, flags: int) -> int:
                return os.open(path, flags | os.O_NONBLOCK, dir_fd=handle)

            with open(name, "rb", opener=inside) as file:
                size = os.fstat(file.fileno()).st_size
                if name == MANIFEST and size > MOST_MANIFEST:
                    raise RunError(f"{MANIFEST} is damaged")
                if name != MANIFEST and size != _listed_size(files[MANIFEST], name):
                    raise RunError(f"{name} is damaged: its size or checksum is not that of {MANIFEST}")
                if not fits_in_memory(size):
                    raise RunError(f"{name} has {size:,} bytes, more than half of this machine's memory")
                files[name] = file.read()
        return {name: files[name] for name in (WEIGHTS, TENSORS, FACTS, MANIFEST)}
    except MemoryError:
        raise RunError(f"{folder.name} is larger than the memory") from None
    finally:
        os.close(handle)


def _listed_size(manifest: bytes, name: str) -> int:
    try:
        size = json.loads(manifest)["files"][name]["size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{MANIFEST} is damaged") from None
    return size if type(size) is int else -1


def _verify(files: dict[str, bytes]) -> dict[str, Any]:
    found = dict(files)
    manifest = found.pop(MANIFEST)
    try:
        said: dict[str, Any] = json.loads(manifest)
        listed = {name: said["files"][name] for name in found}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{MANIFEST} is damaged") from None
    if said.get("format") not in (1, FORMAT):
        raise RunError(
            f"{MANIFEST} has format {str(said.get('format'))[:40]!r}, and this version of Recurra reads {FORMAT}"
        )
    for name, truth in _listing(found).items():
        if listed[name] != truth:
            raise RunError(f"{name} is damaged: its size or checksum is not that of {MANIFEST}")
    return said


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
        dtype = getattr(torch, kept["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{name} is of no type that there is")
        tensors[name] = tensors[name].view(dtype).reshape(kept["shape"])
    return tensors
