"""Threads beside busy processes: one computes all shares while the machine is crowded, to the same numbers."""

import json
import os
import subprocess
import sys

import pytest

from recurra.engines.fused.build import find_compiler

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


SPINNING = """
import json, os, time, torch
from recurra import CATALOGUE
from recurra.engines.fused.kernels import kernel
torch.set_num_threads(2)
made, x, crowd = kernel(CATALOGUE["lstm"].graph, torch.float32), torch.randn(400_000), 1.0

def threads():
    return len(os.listdir("/proc/self/task"))

def wait(is_right):
    for _ in range(500):
        if is_right():
            return
        time.sleep(0.01)
    raise SystemExit(f"{threads()} threads")

def idle():
    # processor time of 50 short regions of torch, each with a pause after it
    start = time.process_time()
    for _ in range(50):
        x.add_(1.0)
        time.sleep(0.004)
    return time.process_time() - start

idle()
before, found = threads(), [idle()]
now = time.monotonic()
made.learn(now, 1.0, 0.5)
wait(lambda: threads() > before)
made.learn(now + 0.5, 1.0, 0.0)  # calm, but not for long
found += [idle(), threads() > before]
made.learn(now + 2.5, 1.0, 0.0)
wait(lambda: threads() == before)
print(json.dumps([*found, idle()]))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads cannot be counted here")
@pytest.mark.skipif(not find_compiler() or "g++" not in find_compiler(), reason="it is GCC's library that is told")
def test_in_a_crowd_threads_that_wait_do_not_spin_and_afterwards_they_do_again():
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run([sys.executable, "-c", SPINNING], capture_output=True, text=True, timeout=120, env=alone)
    assert done.returncode == 0, done.stderr
    spinning, asleep, stayed, again = json.loads(done.stdout)
    assert stayed
    assert asleep < 0.6 * spinning
    assert asleep < 0.6 * again
