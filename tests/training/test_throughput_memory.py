"""Memory in use: training grows with the corpus by its symbols alone, `every:K` not with the sequence, sampling not at all.

Each measurement is the resident memory of a process of its own, in bytes, as the kernel counts it.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recurra.cli.main import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not tell"),
]

MB = 10**6
SYMBOL = 8
"""Bytes of a symbol's number."""

MEASURE = """
import json, re, sys
from pathlib import Path
import torch
from recurra.tasks.catalogue import find_recipe, make_task
from recurra.tasks.settings import override

def memory(what):
    return int(re.search(what + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

torch.set_num_threads(1)
recipe, updates, *settings = sys.argv[1:]
trainer = find_recipe(recipe).configure(settings).trainer()
reading, held = memory("VmHWM"), memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
for _ in range(int(updates)):
    trainer.update(trainer.batches.next())
print(json.dumps({"reading": reading, "held": held, "training": memory("VmHWM")}))
"""
COMMON = ["model.dropout=0.0", "model.input_dropout=0.0", "model.embedding_size=16", "engine=eager"]


def measure(recipe: str, updates: int, *settings: str) -> dict[str, int]:
    """Bytes: at the peak of reading the data, held when it has been read, at the peak of some updates."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, recipe, str(updates), *COMMON, *settings],
        env=os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"},  # what is freed is given back
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_training_grows_with_the_corpus_by_its_symbols_alone(tmp_path: Path) -> None:
    words = random.Random(0)
    text = "".join(words.choice(["the ", "cat ", "sat ", "on ", "a ", "mat.\n"]) for _ in range(400_000))[:MB]
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    small.write_text(text)
    large.write_text(text * 20)
    settings = ["data.tokens=byte", "training.batch_size=16", "training.truncation=every:64", "model.hidden_size=64"]
    one, twenty = (measure("text", 40, f"data.path={file}", *settings) for file in (small, large))
    more = 19 * MB
    assert twenty["held"] - one["held"] > 0.9 * more * SYMBOL, "the corpus is not what was measured"
    assert twenty["held"] - one["held"] < more * SYMBOL + 8 * MB
    assert twenty["reading"] - one["reading"] < more * (SYMBOL + 4) + 8 * MB  # text and bytes, while it is encoded
    assert twenty["training"] - twenty["held"] < one["training"] - one["held"] + 8 * MB


def test_every_k_does_not_grow_with_the_sequence(tmp_path: Path) -> None:
    letters = random.Random(0)

    def train_on(length: int, truncation: str) -> int:
        """The memory that updates on sequences of a length need."""
        file = tmp_path / f"{length}.txt"
        file.write_text("\n".join("".join(letters.choices("abcde ", k=length - 1)) + "." for _ in range(40)))
        settings = [f"data.path={file}", "training.batch_size=32", f"training.truncation={truncation}"]
        found = measure("names", 3, *settings, "model.hidden_size=128", "data.valid=0.05", "data.test=0.0")
        return found["training"] - found["held"]

    short = train_on(256, "every:64")
    assert train_on(16 * 256, "every:64") < 1.5 * short
    assert train_on(4 * 256, "none") > 3 * short, "the measurement does not see what a step keeps"


def test_sampling_holds_constant_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("the cat sat on the mat.\n" * 100)
    small = ["model.hidden_size=16", "training.batch_size=4", "training.truncation=every:8", "training.steps=2"]
    assert run(["train", "text", "data.path=text.txt", *COMMON, *small, "--out", "run"]) == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "recurra", "sample", "run", "--length", "103000", "--seed", "0"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None

    def resident() -> int:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        assert found is not None, "sampling ended before it was measured"
        return int(found[1]) * 1024

    try:
        assert len(process.stdout.read(10_000)) == 10_000
        early = resident()
        assert len(process.stdout.read(90_000)) == 90_000
        late = resident()
    finally:
        process.kill()
        process.communicate()
    assert abs(late - early) < 3 * MB
