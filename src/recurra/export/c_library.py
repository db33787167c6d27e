"""Exported C on this machine: compiled, measured, and called from Python."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recurra.errors import EngineError
from recurra.export.c_source import Port, Source

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


def find_c_compiler() -> str | None:
    """The C compiler: `$CC`, or the first of cc, gcc, clang."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def compile_c(files: Sequence[Path], out: Path, *flags: str, compiler: str | None = None) -> Path:
    """Compile to `out`; a warning is an error. `flags` say what is made of the files."""
    compiler = compiler or find_c_compiler()
    if compiler is None:
        raise EngineError("export to C: no C compiler was found. Install gcc or clang, or name yours in CC.")
    command = [compiler, *STRICT, *flags, *map(str, files), "-o", str(out), *([] if "-c" in flags else ["-lm"])]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        lines = result.stderr.splitlines()
        first = next((line for line in lines if "error" in line), " ".join(lines)[:200] or "no reason given")
        raise EngineError(f"export to C: {compiler} refused {files[0].name}: {first}. Please report it.")
    return out


@dataclass(frozen=True)
class Sizes:
    """Bytes: instructions, constants (weights), the state, and the stack of a step (−1 where it is not known)."""

    code: int
    weights: int
    state: int
    stack: int


SMALL = ("-Os", "-fstack-usage", "-c")
"""How an object is compiled that is measured."""


def measure(source: Source, file: Path, *flags: str, compiler: str | None = None, size: str = "size") -> Sizes | None:
    """The sizes of a source compiled with `-Os`; none where the tool `size` is missing."""
    with tempfile.TemporaryDirectory() as folder:
        return read_sizes(source, compile_c([file], Path(folder) / "made.o", *SMALL, *flags, compiler=compiler), size)


def read_sizes(source: Source, made: Path, size: str = "size") -> Sizes | None:
    """The sizes of an object that was compiled as `SMALL` says; the compiler has noted the stack in a file beside it."""
    if shutil.which(size) is None:
        return None
    listed = subprocess.run([size, str(made)], capture_output=True, text=True, check=True).stdout.splitlines()[1]
    text, data, _ = (int(word) for word in listed.split()[:3])
    notes = made.with_suffix(".su")
    stack = _stack(notes.read_text(), source.name) if notes.exists() else -1
    weights = source.numbers.bytes
    return Sizes(text + data - weights, weights, source.state_bytes, stack)


def _stack(notes: str, name: str) -> int:
    """The deepest chain of calls: a chunk, its step, a layer, one of our functions."""
    used: dict[str, int] = {}
    for line in notes.splitlines():
        place, count, _ = line.split("\t")
        used[place.rsplit(":", 1)[1]] = int(count)
    own = used.get(f"{name}_chunk", 0) + used.get(f"{name}_step", 0)
    layers = max((count for each, count in used.items() if each.startswith("layer_")), default=0)
    inner = max((count for each, count in used.items() if each.startswith("real_")), default=0)
    return own + layers + inner


class CLibrary:
    """A compiled network, called through ctypes: `step` and `chunk` take and give NumPy arrays by name."""

    def __init__(self, source: Source, library: ctypes.CDLL):
        self.source = source
        self._state = (ctypes.c_char * (source.state_bytes + 64))()
        self._reset, self._step, self._chunk = (
            getattr(library, f"{source.name}_{verb}") for verb in ("reset", "step", "chunk")
        )
        for function in (self._reset, self._step, self._chunk):
            function.restype = None
        self.reset()

    @classmethod
    def load(cls, source: Source, files: Sequence[Path], folder: Path, *flags: str) -> CLibrary:
        made = compile_c(files, folder / f"{source.name}.so", "-shared", "-fPIC", *(flags or ("-O2",)))
        return cls(source, ctypes.CDLL(str(made)))

    def reset(self) -> None:
        self._reset(ctypes.byref(self._state))

    @property
    def state(self) -> bytes:
        """The state as it lies in memory, to go on from later."""
        return self._state.raw[: self.source.state_bytes]

    @state.setter
    def state(self, saved: bytes) -> None:
        ctypes.memmove(self._state, saved, self.source.state_bytes)

    def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One step: tokens are numbers, all else is `[size]`."""
        given = {port.name: self._ready(port, inputs[port.name]) for port in self.source.inputs}
        outputs = {port.name: np.zeros(port.size, np.float32) for port in self.source.outputs}
        arguments = [
            ctypes.c_int32(int(given[port.name])) if port.is_token else _pointer(given[port.name])
            for port in self.source.inputs
        ]
        self._step(ctypes.byref(self._state), *arguments, *map(_pointer, outputs.values()))
        return outputs

    def chunk(self, inputs: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        """Many steps: tokens are `[T]`, numbers `[T, size]`, what holds for all steps has no T."""
        given = {port.name: self._ready(port, inputs[port.name]) for port in self.source.inputs}
        outputs = {port.name: np.zeros((steps, port.size), np.float32) for port in self.source.outputs}
        arguments = [
            ctypes.c_int32(int(given[port.name])) if port.is_token and port.is_whole else _pointer(given[port.name])
            for port in self.source.inputs
        ]
        self._chunk(ctypes.byref(self._state), *arguments, *map(_pointer, outputs.values()), ctypes.c_int(steps))
        return outputs

    @staticmethod
    def _ready(port: Port, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, np.int32 if port.is_token else np.float32, order="C")


def _pointer(values: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)
