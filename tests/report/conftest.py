"""Small runs of every recipe."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recurra.cli.main import run

LEARN = ["training.steps=2", "training.batch_size=4", "training.warmup=1", "training.validate_every=2"]
LEARN += ["training.save_every=2", "engine=eager"]
TINY = ["model.hidden_size=4", "model.embedding_size=3"]
WHOLE = [each for each in LEARN if each != "engine=eager"]

SOURCE = '''"""Words of the module {k}."""
import os  # a comment that says something


class Thing{k}:
    """What it is."""

    def value(self, a, b=(1, 2)):
        # nothing much
        return [a, {{"b": b, "c": os.sep}}][{k} % 2]


def main():
    print("the value is", Thing{k}().value("x" * {k}))  # said
'''

RECIPES: dict[str, list[str]] = {
    "python-source": [
        *LEARN,
        *TINY,
        "data.path=code",
        "data.min_count=1",
        "data.limit=none",
        "training.truncation=every:8",
    ],
    "text": [*LEARN, *TINY, "data.path=text.txt", "training.truncation=every:8"],
    "words": [
        *LEARN,
        *TINY,
        "model.tied=false",
        "data.path=text.txt",
        "data.min_count=1",
        "training.truncation=every:8",
    ],
    "names": [*LEARN, *TINY, "data.path=names.txt"],
    "lengths": [*LEARN, *TINY, "data.path=names.txt"],
    "fixed-window": [*WHOLE, "data.path=text.txt"],
    "regression": [*WHOLE, "model.hidden_size=4", "data.count=40"],
    "jordan": [*WHOLE, "model.hidden_size=4", "data.path=tagged.txt"],
    "conditioned": [*LEARN, *TINY, "data.path=classes.tsv"],
    "translate": [*LEARN, *TINY, "data.path=pairs.tsv", "data.min_count=1"],
    "dates": [*LEARN, *TINY, "data.count=60"],
    "addition": [*LEARN, *TINY, "data.count=60"],
    "classify": [*LEARN, *TINY, "data.path=labelled.csv"],
    "pixels": [*LEARN, "model.hidden_size=4", "data.path=images.npz"],
    "tag": [*LEARN, *TINY, "data.path=tagged.txt"],
    "events": [*LEARN, *TINY, "data.path=log.csv"],
    "long-memory": [*LEARN, "model.hidden_size=4", "data.length=8"],
    "long-memory-copying": [*LEARN, *TINY, "data.length=8"],
    "flip-flop": [*LEARN, "model.hidden_size=4", "data.length=8"],
    "washing-machine": [*LEARN, *TINY, "data.length=8"],
    "washing-machine-log": [*WHOLE, *TINY, "data.cases=30"],
    "washing-machine-hidden": [*WHOLE, *TINY, "data.cases=30"],
    "signal-and-noise": [*WHOLE, "model.hidden_size=4", "data.sequences=20", "data.test=20", "data.length=10"],
    "forecast": [*LEARN, "model.hidden_size=4", "data.length=700", "data.window=24"],
    "piano-roll": [*LEARN, "model.hidden_size=4", "data.path=rolls.json"],
    "parity": [*LEARN, *TINY, "data.length=8"],
    "delayed-flip-flop": [*LEARN, "model.hidden_size=4", "data.length=8", "data.delay=2"],
    "tomita": [*LEARN, *TINY, "data.strings=40", "data.test_strings=20"],
    "dyck": [*LEARN, *TINY, "data.strings=40", "data.test_strings=20"],
    "output-recurrence": [*WHOLE, "model.hidden_size=4", "data.length=8"],
    "tree": [*WHOLE, *TINY, "data.depth=2", "data.count=40"],
    "feedforward": [*WHOLE, "model.hidden_size=4", "data.count=40"],
    "reservoir": [
        "model.hidden_size=20",
        "data.length=600",
        "training.washout=50",
        "training.horizon=5",
        "training.starts=5",
    ],
}


def write_data(folder: Path) -> None:
    (folder / "code").mkdir()
    for k in range(24):
        (folder / f"code/m{k}.py").write_text(SOURCE.format(k=k) * 2)
    (folder / "text.txt").write_text('He said "yes, (of course) it is" and\nwent on.\n\n' * 60)
    names = [a + b + c for a in ("an", "be", "ka", "lo") for b in ("na", "ri", "to") for c in ("", "s", "x")]
    (folder / "names.txt").write_text("\n".join(names) + "\n")
    (folder / "classes.tsv").write_text("".join(f"{'ab'[k % 2]}\t{name}\n" for k, name in enumerate(names)))
    (folder / "pairs.tsv").write_text("".join(f"{name} x\t{name} y\n" for name in names))
    (folder / "labelled.csv").write_text(
        "text,label\n" + "".join(f"{name},{'ab'[k % 2]}\n" for k, name in enumerate(names))
    )
    images = np.random.default_rng(0).integers(0, 256, (40, 3, 3), dtype=np.uint8)
    np.savez(folder / "images.npz", x=images, y=images[:, 0, 0] // 128)
    (folder / "tagged.txt").write_text("".join(f"{name} N\nis V\n\n" for name in names))
    rows = [
        f"{k},{what},2024-01-{1 + k % 28:02d} 0{t}:00:00"
        for k in range(30)
        for t, what in enumerate("abac"[: 2 + k % 3])
    ]
    pieces = [[[60 + t % 5, 64], [67] if k % 2 else []] for k in range(6) for t in range(1)]
    rolls = [[frame for _ in range(6) for frame in piece] for piece in pieces]
    (folder / "rolls.json").write_text(json.dumps({"train": rolls, "valid": rolls[:2], "test": rolls[:2]}))
    (folder / "log.csv").write_text("case,activity,time\n" + "\n".join(rows) + "\n")


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Train a recipe on small data; further settings come last and win."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)

    def make(recipe: str, *more: str) -> Path:
        keys = {each.partition("=")[0] for each in more}
        settings = [each for each in RECIPES[recipe] if each.partition("=")[0] not in keys]
        assert run(["train", recipe, *settings, *more, "--out", f"run-{recipe}"]) == 0
        return tmp_path / f"run-{recipe}"

    return make
