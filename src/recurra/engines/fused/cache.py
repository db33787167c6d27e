"""Compiled kernels on disk, which are code: only what this user has put there is ever run.

The folder (`$RECURRA_CACHE`, or `recurra` under the user's cache folder) belongs to the user, and nobody else may write to it.
Each entry ends with a code (HMAC-SHA256 of its name and content) under a key that lies elsewhere and that only the user can
read: whoever plants or changes a file cannot make one. What does not pass is not there, and is built again. Files are opened
without following links, are read once, and what was read is what runs. They are moved into place whole, which also holds on
network file systems, so that processes and machines may write the same entry at once. A lock only saves work: while one thread
or process builds an entry, others wait for it.
"""

from __future__ import annotations

import ctypes
import fcntl
import hmac
import itertools
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from recurra.errors import EngineError

CODE = 32
"""Bytes of the code at the end of an entry, and of the key."""
LARGEST = 1 << 30
PATIENCE = 180.0
"""Seconds: a compiler that takes longer has been stopped."""
_numbers = itertools.count(1)


def cache_folder() -> Path:
    named = os.environ.get("RECURRA_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recurra"
    return base / "kernels"


def key_file() -> Path:
    """Where the key is: not in the cache, whose folder may be shared or handed on."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "recurra" / "cache.key"


def read_entry(name: str) -> bytes | None:
    """The content of an entry; `None` if there is none that this user has written."""
    key = _key()
    if key is None:
        return None
    with _opened(cache_folder()) as folder:
        data = None if folder is None else _read(name, folder)
    if data is None or len(data) < CODE:
        return None
    content, code = data[:-CODE], data[-CODE:]
    return content if hmac.compare_digest(code, _code(key, name, content)) else None


def write_entry(name: str, content: bytes, about: str = "a kernel") -> None:
    """Keep an entry. Without a key nothing is kept, and the next process builds it again."""
    key = _key()
    if key is not None:
        write_file(name, content + _code(key, name, content), about)


def write_file(name: str, data: bytes, about: str = "a kernel") -> Path:
    """A file of the cache, there whole or not at all, which only this user can write; its path."""
    path = cache_folder() / name
    with workplace(about) as place:
        made = place / "new"
        made.write_bytes(data)
        made.chmod(0o600)
        made.replace(path)
    return path


@contextmanager
def sole_builder(name: str) -> Iterator[None]:
    """Held by one thread of one process at a time for each name. The system releases it when its owner ends, however it does;
    who has waited `PATIENCE` seconds, or is on a file system without locks, goes on without it."""
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(folder) as place:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(f"{name}.lock", flags, 0o600, dir_fd=place)
        except OSError:
            lock = None
        try:
            if lock is not None:
                _await_lock(lock)
            yield
        finally:
            if lock is not None:
                with suppress(OSError):  # whoever waits for a lock without a name finds the entry built
                    os.unlink(f"{name}.lock", dir_fd=place)
                os.close(lock)


def _await_lock(lock: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            return


def read_text(name: str) -> str | None:
    """A text of the cache, for comparison with what it should be."""
    with _opened(cache_folder()) as folder:
        data = None if folder is None else _read(name, folder)
    return None if data is None else data.decode(errors="replace")


def load_library(content: bytes) -> ctypes.CDLL:
    """Load these very bytes: a path could lead to other ones by the time that it is opened again."""
    if not _is_whole(content):  # the loader maps what the headers name, and a read past the end kills the process
        raise OSError("it is cut off")
    if not hasattr(os, "memfd_create"):  # not on Linux: a folder that is private serves as well
        with tempfile.TemporaryDirectory(prefix="recurra-") as place:
            copy = Path(place) / "kernel.so"
            copy.write_bytes(content)
            return ctypes.CDLL(str(copy))
    handle = os.memfd_create("recurra-kernel", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        # the loader knows libraries by their path, and numbers of handles come again: slashes make each path its own
        return ctypes.CDLL(f"/proc/self/fd/{'/' * next(_numbers)}{handle}")
    finally:
        os.close(handle)


def _is_whole(content: bytes) -> bool:
    """Whether an ELF file has all that its headers name: the table of sections comes last. Other kinds are left to the loader."""
    if content[:5] != b"\x7fELF\x02":
        return len(content) > CODE and content[:4] != b"\x7fELF"
    if len(content) < 64:
        return False
    order: Any = "little" if content[5] == 1 else "big"
    at, size, count = (int.from_bytes(content[a:b], order) for a, b in ((40, 48), (58, 60), (60, 62)))
    return at > 0 and at + size * count <= len(content)


@contextmanager
def workplace(about: str) -> Iterator[Path]:
    """A folder within the cache, from which files are moved into place."""
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(folder):
            pass
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield Path(place)
    except OSError as error:
        raise EngineError(
            f"{about} cannot be kept in {folder}: {error.strerror}. Set RECURRA_CACHE to a writable folder."
        ) from error


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """A handle on the cache's folder, if it is the user's alone; `None` where there is none. Otherwise it is refused."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if folder.is_symlink():
            raise EngineError(
                f"the kernel cache {folder} is a link, which is not followed: compiled code would be run from where it leads. "
                f"Remove it: rm {shlex.quote(str(folder))}"
            ) from error
        raise EngineError(
            f"the kernel cache {folder} cannot be opened: {error.strerror}. Set RECURRA_CACHE to a writable folder."
        ) from error
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise EngineError(
                f"the kernel cache {folder} belongs to user {found.st_uid}, who could put code there that you would run. "
                f"Make it yours: sudo chown -R {os.geteuid()} {shlex.quote(str(folder))} (or set RECURRA_CACHE to another)"
            )
        if found.st_mode & 0o022:
            raise EngineError(
                f"the kernel cache {folder} can be written by others, who could put code there that you would run. "
                f"Mend it: chmod go-w {shlex.quote(str(folder))}"
            )
        yield handle
    finally:
        os.close(handle)


def _read(name: str, folder: int) -> bytes | None:
    """A regular file of this user's that nobody else can write, read once."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with open(handle, "rb") as file:
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return None
            return file.read() if found.st_size <= LARGEST else None
        except OSError:
            return None


def _code(key: bytes, name: str, content: bytes) -> bytes:
    """The name belongs to it: else one kernel could be put in the place of another."""
    made = hmac.new(key, name.encode() + b"\0", "sha256")
    made.update(content)
    return made.digest()


def _key() -> bytes | None:
    return _key_at(str(key_file()))


@lru_cache(maxsize=8)
def _key_at(file: str) -> bytes | None:
    """This user's key, made at first use; `None` where the user has no folder that it can be kept in."""
    path = Path(file)
    for _ in range(3):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if not _make_key(path):
                return None
            continue
        except OSError:
            return None
        with open(handle, "rb") as opened:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise EngineError(
                    f"the key of the kernel cache, {path}, can be read by others or is not yours. "
                    f"Remove it, and a new one is made: rm {shlex.quote(str(path))}"
                )
            key = opened.read(CODE + 1)
        if len(key) == CODE:
            return key
        with suppress(OSError):  # half a key, of a disk that was full
            path.unlink()
    return None


def _make_key(path: Path) -> bool:
    """Put a key in place, unless another process has just done so: a link fails where a name is taken."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(os.urandom(CODE))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(made, path)
            except FileExistsError:
                return True
            except OSError:  # a file system without links
                if not path.exists():
                    os.replace(made, path)
            return True
        finally:
            with suppress(OSError):
                os.unlink(made)
    except OSError:
        return False
