"""A long life does not grow: a million training steps in a run folder, and ten million sampled tokens.

    pytest -m slow -s tests/tasks/test_flat_memory.py        prints the resident memory after each tenth; well over half an hour

`RECURRA_LIFE=0.01` runs a hundredth of it.
"""

import os
import threading
from pathlib import Path

import pytest

import recurra as rc

LIFE = float(os.environ.get("RECURRA_LIFE", "1"))
STEPS, TOKENS = round(1e6 * LIFE), round(1e7 * LIFE)
GROWTH = 24
"""MiB that the resident memory may differ by between the second tenth and the last: allocators keep some of what they free."""


def resident() -> float:
    """MiB of this process's own that are in memory: pages of libraries come and go as the kernel likes."""
    _, all_of_it, of_files = map(int, Path("/proc/self/statm").read_text().split()[:3])
    return (all_of_it - of_files) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Watch(threading.Thread):
    """Takes the resident memory twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found, self.over = [resident()], threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.found.append(resident())

    def tenths(self) -> list[float]:
        self.over.set()
        self.join()
        return [self.found[(len(self.found) - 1) * k // 10] for k in range(1, 11)]


def tell(what: str, tenths: list[float]) -> None:
    print(f"\n{what}: MiB resident after each tenth: {', '.join(f'{each:.1f}' for each in tenths)}", flush=True)
    assert abs(tenths[-1] - tenths[1]) < GROWTH


def live(steps: int, folder: Path) -> rc.Run:
    return rc.train(
        "text",
        data=["abcab bca " * 200],
        cell="elman",
        hidden_size=4,
        combine="none",  # of so little a text, counts alone would be what is sampled
        batch_size=1,
        truncation="every:4",
        steps=steps,
        validate_every=max(1, steps // 100),
        save_every=max(1, steps // 100),
        out=folder,
        progress="none",
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rc.Run:
    folder = tmp_path_factory.mktemp("runs")
    live(200, folder / "first")  # modules and kernels are loaded once, before memory is watched
    watch = Watch()
    watch.start()
    run = live(STEPS, folder / "life")
    assert run.outcome is not None
    tell(f"{run.outcome.step:,} training steps", watch.tenths())
    return run


@pytest.mark.slow
def test_training_steps(run: rc.Run) -> None:
    assert run.outcome is not None
    assert run.outcome.step == STEPS


@pytest.mark.slow
def test_sampled_tokens(run: rc.Run) -> None:
    tenths: list[float] = []
    count = 0
    for piece in run.generate("a", TOKENS, seed=1):
        count += len(piece)
        if count >= (len(tenths) + 1) * TOKENS // 10:
            tenths.append(resident())
    assert count == TOKENS
    tell(f"{TOKENS:,} sampled tokens", tenths)
