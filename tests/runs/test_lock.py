"""One writer at a time, and a dead one holds nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from recurra.errors import RunError
from recurra.runs.lock import hold

from .helpers import names, new_run

HOLDER = """
import os, sys, time
from pathlib import Path
from recurra.runs.lock import hold
with hold(Path(sys.argv[1])):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    """The first has forked a worker that outlives it, as a loader of data may: that worker holds nothing."""
    folder = new_run(tmp_path / "a")
    command = [sys.executable, "-c", HOLDER, str(folder.path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(holder.stdout.readline())
    try:
        started = time.monotonic()
        with pytest.raises(RunError, match=rf"another process \(pid {holder.pid}\) is writing .*/a\."), folder.lock():
            pass
        assert time.monotonic() - started < 1
        holder.kill()
        holder.wait()
        os.kill(child, 0)  # the worker is alive
        with folder.lock():
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_neither_holds_nor_releases(tmp_path):
    folder = new_run(tmp_path / "a")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom recurra.errors import RunError\nfrom recurra.runs.lock import hold\n"
        "path = Path(sys.argv[1])\n"
        "with hold(path):\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "        fresh = os.fork()\n"
        "        if not fresh:\n"
        "            try:\n"
        "                with hold(path): pass\n"
        "            except RunError: os._exit(7)\n"
        "            os._exit(1)\n"
        "        assert os.waitstatus_to_exitcode(os.waitpid(fresh, 0)[1]) == 7\n"
        "if child: print('held')\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True)
    assert result.stdout == "held\n", result.stderr


def test_the_lock_is_free_after_the_block(tmp_path):
    folder = new_run(tmp_path / "a")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), folder.lock():
            raise ZeroDivisionError
    with folder.lock(), pytest.raises(RunError, match="this process is already writing"), folder.lock():
        pass


def test_a_folder_that_is_being_made_is_not_made_twice(tmp_path):
    with hold(tmp_path), pytest.raises(RunError, match="already writing"):
        new_run(tmp_path)
    assert names(tmp_path) == {".lock"}
    new_run(tmp_path)


def test_a_folder_that_cannot_be_locked(tmp_path):
    folder = new_run(tmp_path / "a")
    (folder.path / ".lock").unlink()
    (folder.path / ".lock").mkdir()
    with pytest.raises(RunError, match="cannot be locked: Is a directory"), folder.lock():
        pass
