"""From source to a loaded library: compiled by the machine's compiler at first use, then cached on disk.

The cache (`$RECURRA_CACHE`, or `recurra` under the user's cache folder) is keyed by source, compiler, flags and processor.
Files are moved into place whole and carry a checksum, so processes may build the same kernel at once and a damaged entry
is built again. `$RECURRA_OPTIMIZE` sets the optimisation level (3): tests of numbers compile in less time with a lower one.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

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
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    version = said.partition("\n")[0]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    except OSError:
        processor = platform.processor() + platform.machine()
    return f"{version}\n{processor}"


def cache_folder() -> Path:
    named = os.environ.get("RECURRA_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recurra"
    return base / "kernels"


def build(source: str, real: str, about: str) -> ctypes.CDLL:
    """The library of this source for `real` (`float` or `double`), compiled if the cache has no sound copy of it."""
    flags = [f"-O{os.environ.get('RECURRA_OPTIMIZE', '3')}", *FLAGS, f"-DREAL={real}"]
    headers = [header.read_text() for header in HEADERS]
    key = hashlib.sha256("\n".join([source, *headers, _machine(), *flags]).encode()).hexdigest()[:32]
    library = cache_folder() / f"{key}.so"
    if not is_sound(library):
        _compile(source, flags, library, about)
    return ctypes.CDLL(str(library))


def _checksum(path: Path) -> Path:
    return path.with_suffix(".sha256")


def is_sound(path: Path) -> bool:
    try:
        return _checksum(path).read_text() == hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return False


def write_whole(path: Path, content: bytes) -> None:
    """A file of the cache, with its checksum."""
    with _workplace(path.parent, "a kernel") as place:
        made = place / path.name
        made.write_bytes(content)
        _move(made, path)


def _compile(source: str, flags: list[str], library: Path, about: str) -> None:
    compiler = find_compiler()
    assert compiler is not None
    log.info("compiling %s (once; cached in %s)", about, library.parent)
    with _workplace(library.parent, about) as place:
        text, made = place / "kernel.cpp", place / "kernel.so"
        text.write_text(source)
        command = [compiler, *flags, f"-I{HEADERS[0].parent}", str(text), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode or not made.exists():
            said = " ".join(result.stderr.split())[:200] or f"{compiler} made no library"
            first = next((line for line in result.stderr.splitlines() if "error" in line), said)
            raise EngineError(f"the compiler refused {about}: {first}. Use engine='eager', and please report it.")
        text.replace(library.with_suffix(".cpp"))
        _move(made, library)


@contextmanager
def _workplace(folder: Path, about: str) -> Iterator[Path]:
    """A folder within the cache, from which files are moved into place whole: processes may write the same one at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield Path(place)
    except OSError as error:
        raise EngineError(
            f"{about} cannot be kept in {folder}: {error.strerror}. Set RECURRA_CACHE to a writable folder."
        ) from error


def _move(made: Path, path: Path) -> None:
    note = made.with_suffix(".sha256")
    note.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
    note.replace(_checksum(path))  # before the file: a reader between the two finds a mismatch and builds
    made.replace(path)
