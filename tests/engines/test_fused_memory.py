"""Memory of the fused engine: lent to one run at a time, given back, and less of it than the plain loop takes."""

import gc
import json
import os
import subprocess
import sys
import threading

import pytest
import torch

from recurra.engines.fused import memory
from recurra.engines.fused.memory import Buffer
from tests.engines.fused_helpers import tame_layer

SINGLE, DOUBLE = torch.float32, torch.float64


@pytest.fixture(autouse=True)
def nothing_idle():
    memory._idle.clear()


def test_a_buffer_is_lent_again_when_it_is_free():
    first = Buffer(1000, SINGLE)
    address = first.data.data_ptr()
    other = Buffer(1000, SINGLE)
    assert other.data.data_ptr() != address
    del first
    assert Buffer(900, SINGLE).data.data_ptr() == address


def test_a_buffer_fits_in_size_and_type():
    del [Buffer(1000, SINGLE)][:]
    for size, dtype in ((1001, SINGLE), (1000, DOUBLE), (10, SINGLE), (1000, SINGLE)):
        lent = Buffer(size, dtype)
        assert lent.data.numel() == size
        assert lent.data.dtype == dtype


def test_idle_memory_is_limited(monkeypatch):
    monkeypatch.setattr(memory, "KEPT_BYTES", 4000)
    buffers = [Buffer(300, SINGLE) for _ in range(10)]
    buffers.clear()
    gc.collect()
    assert 0 < sum(each.nbytes for each in memory._idle.values()) <= 4000


def test_threads_never_share_a_buffer():
    """Many threads lend and return; each writes its number and finds it again."""
    wrong = []

    def work(number: int) -> None:
        for k in range(400):
            lent = Buffer(50 + (k * number) % 40, SINGLE)
            lent.data.fill_(number)
            other = Buffer(60, SINGLE)
            other.data.fill_(-number)
            if not bool((lent.data == number).all()) or lent.data.numel() != 50 + (k * number) % 40:
                wrong.append(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_layers_may_run_in_several_threads():
    layer = tame_layer("gru", 4, 9, engine="fused")
    x = torch.randn(6, 3, 20, 4, dtype=DOUBLE)

    def gradient(k: int) -> torch.Tensor:
        mine = x[k].clone().requires_grad_()
        (found,) = torch.autograd.grad(layer(mine).outputs.square().sum(), mine)
        return found

    expected = [gradient(k) for k in range(len(x))]
    found: dict[int, list[torch.Tensor]] = {k: [] for k in range(len(x))}
    threads = [
        threading.Thread(target=lambda k=k: found[k].extend(gradient(k) for _ in range(20))) for k in range(len(x))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, value in enumerate(expected):
        assert len(found[k]) == 20
        assert all(torch.equal(each, value) for each in found[k])


def test_a_graph_that_is_dropped_gives_its_memory_back():
    layer = tame_layer("lstm", 4, 9, engine="fused")
    x = torch.randn(3, 20, 4, dtype=DOUBLE)
    trace = layer(x)
    idle = len(memory._idle)  # what the forward run needed for itself alone
    del trace
    gc.collect()
    assert len(memory._idle) == idle + 1


PEAK = """
import json, resource, sys, torch
from recurra import Recurrent
torch.set_num_threads(1)
layer = Recurrent("lstm", 256, 256, engine=sys.argv[1])
layer(torch.randn(2, 3, 256)).outputs.sum().backward()
x = torch.randn(32, 1024, 256)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
layer(x).outputs.sum().backward()
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.slow
def test_a_long_sequence_takes_less_memory_than_the_plain_loop():
    """B = 32, T = 1024, H = 256: the growth of the process's peak, forward and backward, each engine in its own process."""
    growth = {}
    for engine in ("fused", "eager"):
        command = [sys.executable, "-c", PEAK, engine]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300)
        assert done.returncode == 0, done.stderr
        growth[engine] = json.loads(done.stdout)
    assert growth["fused"] <= 0.6 * growth["eager"], growth
