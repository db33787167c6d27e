"""From source to a loaded library: compiled by the machine's compiler at first use, then cached on disk.

The cache (`recurra.engines.fused.cache`) is keyed by source, compiler, flags and processor. `$RECURRA_OPTIMIZE` sets the
optimisation level (3): tests of numbers compile in less time with a lower one.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from recurra.engines.fused.cache import (
    cache_folder,
    load_library,
    read_entry,
    sole_builder,
    workplace,
    write_entry,
    write_file,
)
from recurra.errors import EngineError

FLAGS = ("-std=c++17", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC", "-w")
HEADERS = sorted(Path(__file__).parent.glob("*.hpp"))
log = logging.getLogger("recurra.engines")
"""Says on level INFO what is compiled; the command line shows it."""


@lru_cache(maxsize=1)
def find_compiler() -> str | None:
    """The C++ compiler: `$CXX`, or the first of g++, clang++, c++."""
    named = os.environ.get("CXX")
    return next((path for name in (named, "g++", "clang++", "c++") if name and (path := shutil.which(name))), None)


@lru_cache(maxsize=1)
def _machine() -> str:
    """What the result depends on besides the source: the compiler's version and the processor."""
    compiler = find_compiler()
    assert compiler is not None
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, errors="replace").stdout
    version = said.partition("\n")[0]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    except OSError:
        processor = platform.processor() + platform.machine()
    return f"{version}\n{processor}"


def build(source: str, real: str, about: str) -> ctypes.CDLL:
    """The library of this source for `real` (`float` or `double`), compiled if the cache has no sound copy of it."""
    flags = [f"-O{os.environ.get('RECURRA_OPTIMIZE', '3')}", *FLAGS, f"-DREAL={real}"]
    headers = [header.read_text() for header in HEADERS]
    key = hashlib.sha256("\n".join([source, *headers, _machine(), *flags]).encode()).hexdigest()[:32]
    library = _cached(key)
    if library is not None:
        return library
    with sole_builder(key):
        library = _cached(key)  # by whoever held the lock before
        if library is not None:
            return library
        content = _compile(source, flags, about)
        try:
            library = load_library(content)
        except OSError as error:
            raise EngineError(
                f"{find_compiler()} made a library of {about} that cannot be loaded ({str(error)[:100]}). "
                "Use engine='eager', or set CXX to another compiler."
            ) from None
        write_file(f"{key}.cpp", source.encode(), about)  # to be read beside it
        write_entry(f"{key}.so", content, about)
        return library


def _cached(key: str) -> ctypes.CDLL | None:
    content = read_entry(f"{key}.so")
    if content is not None:
        with suppress(OSError):  # written by a compiler that was cut short: it is built again
            return load_library(content)
    return None


def _compile(source: str, flags: list[str], about: str) -> bytes:
    compiler = find_compiler()
    assert compiler is not None
    log.info("compiling %s (once; cached in %s)", about, cache_folder())
    with workplace(about) as place:
        text, made = place / "kernel.cpp", place / "kernel.so"
        text.write_text(source)
        command = [compiler, *flags, f"-I{HEADERS[0].parent}", str(text), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if result.returncode or not made.exists():
            said = " ".join(result.stderr.split())[:200] or f"{compiler} made no library"
            first = next((line for line in result.stderr.splitlines() if "error" in line), said)
            raise EngineError(f"the compiler refused {about}: {first}. Use engine='eager', and please report it.")
        return made.read_bytes()
