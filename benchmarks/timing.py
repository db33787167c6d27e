"""How times are taken: in turn, round by round, as median and quartiles, on as many threads as torch was given."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

Say = Callable[[str], None]
"""Receives one line about what is being measured now."""

LARGE = 0.25
"""The share of the median that the quartiles may be apart."""


def quiet(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        low, median, high = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.25, 0.5, 0.75]).double())
        return cls(float(median), float(low), float(high))

    @property
    def is_large(self) -> bool:
        return self.high - self.low > LARGE * self.median

    def __mul__(self, factor: float) -> Spread:
        return Spread(self.median * factor, self.low * factor, self.high * factor)

    def __str__(self) -> str:
        return f"{show(self.median)} ({show(self.low)}–{show(self.high)})"


def show(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:.0f}"


def wait(device: str) -> None:
    """A GPU works on after the call returned: wait until it is done."""
    if device == "cuda":
        torch.cuda.synchronize()


def repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


def seconds(call: Callable[[], Any], device: str = "cpu", times: int = 1) -> float:
    """Seconds of one call, the mean of `times` in a row."""
    wait(device)
    start = time.perf_counter()
    repeat(call, times)
    wait(device)
    return (time.perf_counter() - start) / times


def time_in_turn(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    device: str = "cpu",
    slow: Collection[str] = (),
    say: Say = quiet,
) -> dict[str, Spread]:
    """Seconds of each call. Every round goes through all of them, so that whatever the machine does meanwhile falls on each.

    - `slow`: these run a fifth of the rounds (3 at least), and once in each.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for each in range(-1, rounds):  # the first round only warms up
        say(f"round {each + 1} of {rounds}")
        for name, call in calls.items():
            if name in slow and each >= max(3, rounds // 5):
                continue
            if name not in slow:
                call()  # the runner before has left other data in the caches, and threads asleep
            taken = seconds(call, device)
            if each >= 0:
                found[name].append(taken)
    return {name: Spread.of(values) for name, values in found.items()}


def matrix_rate(device: str, dtype: torch.dtype, *, size: int = 2048, repeats: int = 7) -> float:
    """GFLOP/s of a large matrix product on this machine, now, at its best: the limit of what any engine can reach."""
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    times = [seconds(lambda: a @ b, device) for _ in range(repeats + 1)][1:]
    return 2e-9 * size**3 / min(times)


@contextmanager
def threads(count: int = 0) -> Iterator[int]:
    """Compute on `count` threads; 0 leaves torch's own number, which follows OMP_NUM_THREADS and the cores of this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield count or before
    finally:
        torch.set_num_threads(before)


def describe_machine(device: str, threads: int) -> dict[str, Any]:
    """What the figures depend on."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("recurra", "torch", "jax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": threads,
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "versions": versions,
    }
