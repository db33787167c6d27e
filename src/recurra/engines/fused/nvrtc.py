"""Generated CUDA C++, compiled by NVIDIA's run-time compiler, which comes with torch, and launched."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import local
from typing import Any

import torch
from torch import Tensor

from recurra.engines.fused.cache import read_entry, write_entry
from recurra.errors import EngineError

HEADERS = [
    Path(__file__).parent / name for name in ("machine.cuh", "values.cuh", "steps.cuh", "chunks.cuh", "matrices.cuh")
]
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_MOST_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Kernel:
    """A function on one device. `together`: all its thread blocks run at once, since they wait for each other."""

    def __init__(self, binary: bytes, function: str, warps: int, shared: int, together: bool):
        driver = _driver()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(driver.cuModuleLoadData(ctypes.byref(self.module), binary), "loaded")
        _check(driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, function.encode()), "found")
        _check(driver.cuFuncSetAttribute(self.function, _MOST_SHARED_MEMORY, shared), "given its shared memory")
        self.threads, self.shared = 32 * warps, shared
        self.start = driver.cuLaunchCooperativeKernel if together else driver.cuLaunchKernel
        self.rest = () if together else (None,)
        self.device = torch.cuda.current_device()
        self.held = local()

    def __call__(self, blocks: int, groups: int, values: Sequence[int]) -> None:
        """Arguments are addresses and whole numbers, all of 64 bits."""
        try:
            arguments, places = self.held.ready
        except AttributeError:  # the first call of a thread
            count = len(values)
            arguments = (ctypes.c_int64 * count)()
            first = ctypes.addressof(arguments)
            places = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
            self.held.ready = arguments, places
        arguments[:] = values
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(self.device))
        sizes = (blocks, groups, 1, self.threads, 1, 1, self.shared)
        _check(_call(self.start, self.function, *sizes, stream, places, *self.rest), "launched")


def set_all_bits(tensor: Tensor) -> None:
    """Of a tensor in one piece, whose device is the current one."""
    size = tensor.numel() * tensor.itemsize
    if size:
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(tensor.get_device()))
        place = ctypes.c_uint64(tensor.data_ptr())
        code = _call(_driver().cuMemsetD8Async, place, ctypes.c_ubyte(255), ctypes.c_size_t(size), stream)
        _check(code, "given its memory")


def on(device: int) -> AbstractContextManager[Any]:
    """With this device as the current one, where kernels are loaded and launched; -1 is no GPU."""
    elsewhere = device >= 0 and device != torch.cuda.current_device()
    return torch.cuda.device(device) if elsewhere else nullcontext()


def addresses(values: Iterable[Tensor | int | None]) -> list[int]:
    """Arguments as a kernel takes them: tensors by their addresses, nothing as 0."""
    return [value.data_ptr() if isinstance(value, Tensor) else value or 0 for value in values]


@lru_cache(maxsize=512)
def kernel(source: str, function: str, warps: int, shared: int, device: int, together: bool = True) -> Kernel:
    """Compiled if the cache has no copy. `device` is the current one: where the code is loaded."""
    major, minor = torch.cuda.get_device_capability(device)
    target = f"sm_{major}{minor}"
    parts = [source, *(header.read_text() for header in HEADERS), target, str(_version())]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    name = f"{key}.cubin"
    binary = read_entry(name)
    if binary is None:
        binary = compile_for(source, target)
        write_entry(name, binary)
    return Kernel(binary, function, warps, shared, together)


def compile_for(source: str, target: str) -> bytes:
    """Machine code for a processor such as sm_90."""
    nvrtc = _library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    count = len(HEADERS)
    headers = (ctypes.c_char_p * count)(*(header.read_bytes() for header in HEADERS))
    names = (ctypes.c_char_p * count)(*(header.name.encode() for header in HEADERS))
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", count, headers, names)
    _check(code, "read")
    options = [f"--gpu-architecture={target}".encode(), b"--std=c++17", b"--ftz=true"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    try:
        if code:
            said = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
            first = next((line for line in said.splitlines() if "error" in line), said[:200])
            raise EngineError(f"the CUDA compiler refused a kernel: {first}. Use engine='eager', and please report it.")
        return _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def is_there() -> bool:
    return _library() is not None


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """The compiler of torch's CUDA version: on the library path, or in the package that torch brings with it."""
    if torch.version.cuda is None:
        return None
    name = f"libnvrtc.so.{torch.version.cuda.split('.')[0]}"
    package = find_spec("nvidia")
    folders = [Path(folder) for folder in package.submodule_search_locations or []] if package else []
    for path in (name, *(str(found) for folder in folders for found in folder.glob(f"*/lib/{name}"))):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _version() -> tuple[int, int]:
    nvrtc = _library()
    assert nvrtc is not None
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "asked for its version")
    return major.value, minor.value


def _call(function: Any, *arguments: Any) -> int:
    """A thread of which the driver knows nothing yet, such as a new one of autograd, is made known to it by torch."""
    code: int = function(*arguments)
    if code == _NO_CONTEXT:
        torch.cuda.synchronize()
        code = function(*arguments)
    return code


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _text(size_of: Callable[..., int], get: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)), "measured")
    text = ctypes.create_string_buffer(size.value)
    _check(get(program, text), "read")
    return text.raw


def _check(code: int, done: str) -> None:
    if code:
        raise EngineError(f"a CUDA kernel could not be {done} (code {code}). Use engine='eager', and please report it.")
