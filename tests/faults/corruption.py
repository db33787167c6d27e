"""Run folders that are damaged in every way that disks, copies and people damage them, and what the verbs then answer.

`python -m tests.faults.corruption --count 1000` runs a campaign and prints its counts. Each answer must be the sound one, or be
refused in a line, or come with the damage named on standard error and in `--json`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import recurra as rc
from recurra.cli.main import OURS, run
from recurra.tasks.catalogue import make_task

OWN = """
from recurra import cell, tanh

@cell
def mine(x, U, h):
    return tanh(x.a + U.a(h))
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


def ask(arguments: list[str]) -> Answer:
    """A command in this process; whatever it raises is raised."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return Answer(code, out.getvalue(), err.getvalue())


def verbs(kind: str, folder: Path) -> list[list[str]]:
    """The commands that are asked of a run."""
    asked = [["evaluate", str(folder), "--no-baselines", "--json"], ["runs", str(folder.parent), "--json"]]
    if kind == "text":
        asked += [["sample", str(folder), "--length", "20", "--seed", "1", "--json"]]
        asked += [["score", str(folder), "the cat", "--no-baselines", "--json"]]
    return asked


def make_runs(place: Path) -> dict[str, Path]:
    """Sound runs: one with a vocabulary and data of its own, one with a cell of its own, one of each that was stopped."""
    words = random.Random(0)
    text = [" ".join(words.choice(["the", "cat", "sat", "on", "a", "mat."]) for _ in range(8)) for _ in range(60)]
    (place / "own.py").write_text(OWN)
    options: dict[str, Any] = {"engine": "eager", "progress": "none", "hidden_size": 6, "batch_size": 4, "warmup": 2}
    every = {"steps": 12, "validate_every": 3, "save_every": 2}
    rc.train("text", text, out=place / "text/run", truncation="every:8", **options, **every)
    cell = f"{place / 'own.py'}:mine"
    rc.train("tomita", out=place / "own/run", cell=cell, learning_rate=1.0, schedule="constant", **options, **every)
    return {"text": place / "text/run", "own": place / "own/run"}


# -- ways to damage a folder --------------------------------------------------------------------------------------------


def files_of(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file() and each.name != ".lock")


def flip(folder: Path, draw: random.Random, other: Path) -> str:
    file = draw.choice([each for each in files_of(folder) if each.stat().st_size])
    data = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 1, 1, 8])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return f"flip {file.relative_to(folder)}"


def cut(folder: Path, draw: random.Random, other: Path) -> str:
    file = draw.choice(files_of(folder))
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: draw.choice([0, size // 2, max(0, size - 1), draw.randrange(size + 1)])])
    return f"cut {file.relative_to(folder)}"


def grow(folder: Path, draw: random.Random, other: Path) -> str:
    file = draw.choice(files_of(folder))
    file.write_bytes(file.read_bytes() + draw.choice([b"\0", b" ", b"\n", b"{}\n", b"x" * 100]))
    return f"grow {file.relative_to(folder)}"


def blank(folder: Path, draw: random.Random, other: Path) -> str:
    """A block of zeros, as a file system leaves one."""
    file = draw.choice([each for each in files_of(folder) if each.stat().st_size])
    data = bytearray(file.read_bytes())
    start = draw.randrange(len(data))
    data[start : start + 512] = bytes(len(data[start : start + 512]))
    file.write_bytes(data)
    return f"blank {file.relative_to(folder)}"


def swap(folder: Path, draw: random.Random, other: Path) -> str:
    one, two = draw.sample(files_of(folder), 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    return f"swap {one.relative_to(folder)} {two.relative_to(folder)}"


def swap_checkpoints(folder: Path, draw: random.Random, other: Path) -> str:
    one, two = draw.sample(sorted((folder / "checkpoints").iterdir()), 2)
    one.rename(folder / "kept")
    two.rename(one)
    (folder / "kept").rename(two)
    return f"swap checkpoints {one.name} {two.name}"


def from_another(folder: Path, draw: random.Random, other: Path) -> str:
    """A file of a run of the same kind that was trained otherwise, or a whole checkpoint."""
    if draw.random() < 0.5:
        name = draw.choice([each.name for each in sorted((other / "checkpoints").iterdir())])
        shutil.rmtree(folder / "checkpoints" / name, ignore_errors=True)
        shutil.copytree(other / "checkpoints" / name, folder / "checkpoints" / name)
        return f"checkpoint {name} of another run"
    file = draw.choice(files_of(other))
    (folder / file.relative_to(other)).write_bytes(file.read_bytes())
    return f"{file.relative_to(other)} of another run"


def delete(folder: Path, draw: random.Random, other: Path) -> str:
    path = draw.choice([each for each in sorted(folder.rglob("*")) if each.name != ".lock"])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"delete {path.relative_to(folder)}"


def folder_for_file(folder: Path, draw: random.Random, other: Path) -> str:
    file = draw.choice(files_of(folder))
    file.unlink()
    file.mkdir()
    return f"folder for {file.relative_to(folder)}"


def link(folder: Path, draw: random.Random, other: Path) -> str:
    """To itself, to nothing, within the folder, or out of it."""
    path = draw.choice([each for each in sorted(folder.rglob("*")) if each.name != ".lock"])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    targets = [path, folder / "nothing", other / path.relative_to(folder), "/dev/zero", *files_of(folder)[:2]]
    target = draw.choice(targets)
    path.symlink_to(target)
    return f"link {path.relative_to(folder)} → {target}"


def pipe(folder: Path, draw: random.Random, other: Path) -> str:
    file = draw.choice(files_of(folder))
    file.unlink()
    os.mkfifo(file)
    return f"pipe {file.relative_to(folder)}"


def rows(folder: Path, draw: random.Random, other: Path) -> str:
    file = folder / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    k = draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            lines.pop(k)
        case 1:
            lines.insert(k, draw.choice(lines))
        case 2:
            lines[k], lines[-1] = lines[-1], lines[k]
        case _:
            lines = lines[:k]
    file.write_bytes(b"".join(lines))
    return f"rows {k}"


WAYS: tuple[Callable[[Path, random.Random, Path], str], ...] = (
    *(flip, flip, flip, cut, cut, grow, blank, swap, swap_checkpoints, from_another),
    *(delete, delete, folder_for_file, link, link, pipe, rows),
)


@dataclass
class Campaign:
    """Counts of what was answered, and every answer that is none: a wrong number, or an exception."""

    counts: Counter[str]
    wrong: list[str]


def judge(found: Answer, truth: Answer) -> str:
    """How an answer is: `same`, `refused`, `named`; or what is wrong with it."""
    lines = found.err.splitlines()
    if "Traceback" in found.err or any(not line.startswith("recurra: ") for line in lines):
        return f"WRONG: says {found.err[:300]!r}"
    if found.code == OURS:
        return f"WRONG: the last resort: {found.err[:300]!r}"
    if found.code not in (0, 2):
        return f"WRONG: exit code {found.code}, says {found.err[:300]!r}"
    if found.code == 2:
        return "refused" if lines and not found.out else f"WRONG: {found.out[:200]!r}"
    if found.out == truth.out:
        return "same" if not lines else "same, and named"
    value = found.value
    rows = value.get("runs", [])
    is_listed = bool(value.get("damaged")) or any(row["damaged"] for row in rows)
    if lines and is_listed:
        return "named"
    if "runs" in value and not rows:
        return "no longer a run"
    return f"WRONG: another answer without a word: {found.out[:400]!r}"


def campaign(place: Path, count: int, seed: int = 0, most_verbs: int = 2) -> Campaign:
    """So many damaged copies of sound runs, each asked a few commands."""
    made = make_runs(place)
    others = {}
    for kind, sound in made.items():  # runs of the same shapes that learned something else
        others[kind] = _trained_otherwise(sound, place / f"{kind}-other/run")
    truths = {
        kind: [ask(verb) for verb in verbs(kind, _copy(sound, place / "try" / "run"))] for kind, sound in made.items()
    }
    for answers in truths.values():
        assert all(answer.code == 0 and not answer.err for answer in answers), answers
    draw, found = random.Random(seed), Campaign(Counter(), [])
    for k in range(count):
        kind = draw.choice(sorted(made))
        folder = _copy(made[kind], place / "try" / "run")
        way = WAYS[k % len(WAYS)]
        what = way(folder, draw, others[kind])
        asked = list(zip(verbs(kind, folder), truths[kind], strict=True))
        for verb, truth in draw.sample(asked, min(most_verbs, len(asked))):
            try:
                verdict = judge(ask(verb), truth)
            except Exception as error:
                verdict = f"WRONG: {type(error).__name__}: {error}"
            found.counts[verdict.partition(":")[0]] += 1
            if verdict.startswith("WRONG"):
                found.wrong.append(f"{kind}, {what}, {verb[0]}: {verdict}")
    return found


def _trained_otherwise(sound: Path, folder: Path) -> Path:
    """The same run with another seed."""
    settings = replace(rc.open(sound).settings, seed=5)
    rc.train(make_task(settings), out=folder, progress="none")
    return folder


def _copy(sound: Path, to: Path) -> Path:
    shutil.rmtree(to.parent, ignore_errors=True)
    to.parent.mkdir(parents=True)
    shutil.copytree(sound, to)
    return to


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    with _place() as place:
        result = campaign(place, given.count, given.seed)
    last = sum("WRONG: the last resort" in line for line in result.wrong)
    print(f"{given.count} damaged run folders, {time.monotonic() - began:.0f} s: {dict(result.counts)}")
    print(f"wrong: {len(result.wrong)}, of them through the last resort: {last}")
    for line in result.wrong:
        print(line)
    raise SystemExit(bool(result.wrong))
