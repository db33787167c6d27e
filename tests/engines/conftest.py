"""Kernels for GPUs where there is none: on threads of the processor."""

import ctypes
import hashlib
import subprocess
from pathlib import Path

import pytest

from recurra.engines.fused import gpu, nvrtc
from recurra.engines.fused.build import find_compiler

SIMULATED = Path(__file__).parent / "simulated"
LAUNCHED: list[str] = []
"""The functions that ran on the simulated machine, in order."""


class Simulated:
    """A kernel run by threads of the processor: `tests/engines/simulated/machine.cuh`."""

    def __init__(self, source: str, function: str, shared: int, folder: Path):
        name = hashlib.sha256(source.encode()).hexdigest()[:16]
        text, library = folder / f"{name}.cpp", folder / f"{name}.so"
        if not library.exists():
            text.write_text(source)
            compile_simulated("-shared", "-include", str(folder / "standard.hpp"), str(text), "-o", str(library))
        self.library, self.function, self.shared = ctypes.CDLL(str(library)), function, shared

    def __call__(self, blocks: int, groups: int, values: list[int]) -> None:
        LAUNCHED.append(self.function)
        held = (ctypes.c_int64 * 96)(*values)
        self.library.launch(getattr(self.library, self.function), blocks, groups, self.shared, held)


def compile_simulated(*arguments: str) -> None:
    folders = [f"-I{folder}" for folder in (SIMULATED, nvrtc.HEADERS[0].parent)]
    flags = ["-std=c++20", "-O1", "-w", "-fPIC", "-pthread", *folders]
    subprocess.run([find_compiler(), *flags, *arguments], check=True)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """The folder of compiled kernels. The standard library's headers are compiled once: they are most of a kernel's time."""
    folder = tmp_path_factory.mktemp("kernels")
    if find_compiler() is None:
        pytest.skip("there is no C++ compiler")
    header = folder / "standard.hpp"
    lines = (SIMULATED / "machine.cuh").read_text().splitlines()
    header.write_text("\n".join(line for line in lines if line.startswith("#include <")) + "\n")
    compile_simulated("-x", "c++-header", str(header), "-o", f"{header}.gch")
    return folder


@pytest.fixture
def simulated(monkeypatch, libraries):
    """CUDA C++ runs on the simulated machine; what ran is in `LAUNCHED`."""

    def kernel(source, function, warps, shared, device, together=True):
        return Simulated(source, function, shared, libraries)

    LAUNCHED.clear()
    monkeypatch.setattr(nvrtc, "kernel", kernel)
    gpu.compiled.cache_clear()
    yield
    gpu.compiled.cache_clear()
