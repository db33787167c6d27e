"""Threads beside busy processes: one computes all shares while the machine is crowded, to the same numbers."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, os, torch
from recurra import Recurrent
from recurra.engines.fused.kernels import kernel
torch.manual_seed(0)
torch.set_num_threads(2)
layer, x = Recurrent("lstm", 64, 128), torch.randn(16, 64, 64)
found, crowded = [], False
made = kernel(layer.cell.graph, torch.float32)
for cores in (os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}):
    os.sched_setaffinity(0, cores)
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), cores)
    for _ in range(8):
        layer.zero_grad()
        outputs = layer(x).outputs
        crowded = crowded or bool(made.is_crowded())  # for some milliseconds
        outputs.square().sum().backward()
    found.append([outputs.detach(), layer.stack[0][0].U.grad])
same = all(torch.equal(a, b) for a, b in zip(*found))
print(json.dumps({"crowded": crowded, "same": same}))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process cannot be kept to one core here")
def test_two_threads_on_one_core_are_noticed_and_change_no_number():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"crowded": True, "same": True}
