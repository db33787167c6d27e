"""One writer per run folder. The kernel holds the lock, so it goes when its process does, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recurra.errors import RunError
from recurra.runs.disk import reason

LOCK = ".lock"
_held: set[int] = set()


def _let_go() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)  # else a forked worker that outlives its parent would keep the run locked


def holder(folder: Path) -> int | None:
    """The process that is writing a folder now; `None` if none is.

    The lock is probed only where the process that it names lives: so a probe does not stand in the way of a run that starts.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        text = os.pread(handle, 32, 0).decode(errors="replace").strip()
        if not text.isdecimal():
            return None
        os.kill(int(text), 0)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(text)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(handle)
    return None


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Be the only writer of a folder, or refuse at once."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{folder} cannot be locked: {reason(error)}.") from error
    _held.add(handle)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            who = "this process is already" if pid == str(os.getpid()) else f"another process (pid {pid}) is"
            raise RunError(f"{who} writing {folder}. Wait until it ends, or choose another folder.") from None
        except OSError as error:
            raise RunError(f"{folder} cannot be locked: {reason(error)}. Use a local disk.") from error
        with suppress(OSError):  # the pid is for the message only: a full disk must not stop what frees it
            if os.fstat(handle).st_nlink == 1:  # else it is another file too, which a stranger's archive can make it
                os.ftruncate(handle, 0)
                os.pwrite(handle, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        if handle in _held:  # not so in a forked child, where the number may belong to another file by now
            _held.remove(handle)
            os.close(handle)
