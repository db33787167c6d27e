"""Threads that wait sleep, unless somebody said otherwise."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("said", "holds"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_how_threads_wait_is_decided_before_torch_is_loaded(said: str | None, holds: str) -> None:
    program = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch': print(os.environ['OMP_WAIT_POLICY'])\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import recurra\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {} if said is None else {"OMP_WAIT_POLICY": said}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == holds
