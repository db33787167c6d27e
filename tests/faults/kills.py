"""Runs that are killed at random and at chosen moments, again and again, and must end as one that was left in peace, to the byte.

`python -m tests.faults.kills --kills 1000` runs a campaign and prints its counts; with `--ranks` only pairs of ranks. A parent
imports everything once and forks a child for each start, so that a start takes milliseconds; nothing is trained in the parent. A
child is killed by itself at a chosen call of the file system, or at a chosen meeting of ranks, or by its parent after some
milliseconds. A run that is lost is kept, with what was said, in the folder that its line names.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as `import recurra` does for ranks: it must come before torch

import torch
import torch.distributed as dist

from recurra.cli.main import _command, run
from recurra.training.distributed import WAIT

TOUCHES = ("write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "open", "ftruncate", "pwrite")
"""Calls of the file system at which a child can be killed."""
MEETINGS = {
    **dict.fromkeys(("rendezvous", "init_process_group", "barrier", "destroy_process_group"), 1),
    "set": 3,
    "wait": 3,
    "broadcast_object_list": 4,
    "all_gather": 60,
    "all_reduce": 70,
}
"""Calls at which ranks meet, and how often a run makes them at most: before or after one of them a rank can be killed."""
SMALL = [
    *("model.hidden_size=5", "model.embedding_size=4", "training.batch_size=4", "training.truncation=every:8"),
    *("training.warmup=2", "training.validate_every=10", "training.save_every=3", "engine=eager"),
]
DEAD = 60.0
"""Seconds within which the other ranks must end."""


@dataclass
class Tally:
    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    lost: list[str] = field(default_factory=list)
    slowest: float = 0.0


def kill_at(point: int) -> None:
    """Kill this process just before the so-many-th call of the file system."""
    count = 0

    def guard(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in TOUCHES:
        setattr(os, name, guard(getattr(os, name)))


def kill_at_meeting(name: str, number: int, after: bool) -> None:
    """Kill this process just before, or after, the so-many-th call at which ranks meet."""
    holder: Any = dist.PrefixStore if name in ("set", "wait") else dist
    real, count = getattr(holder, name), 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        given = real(*args, **kwargs)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return given

    setattr(holder, name, call)


def start(
    arguments: list[str],
    log: Path,
    prepare: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
    modules: Path | None = None,
) -> int:
    """A command in a forked child; its process id."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        os.environ.update(environment or {})
        torch.set_num_threads(1)
        if prepare is not None:
            prepare()
        code = run(arguments)
        if modules is not None:
            modules.write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int, seconds: float = 120.0) -> int:
    """The exit status; minus the signal, if it was one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -999


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that matters; what is kept of the past differs with the kills."""
    left = ("previous", "previous-best", ".lock")
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not any(part in left or part.startswith(".writing-") for part in file.parts)
    }


class Campaign:
    def __init__(self, place: Path, keep: Path, seed: int = 0):
        self.place, self.keep, self.draw, self.tally = place, keep, random.Random(seed), Tally()
        words = random.Random(0)
        text = " ".join(words.choice(["the", "cat", "sat", "on", "a", "mat.\n"]) for _ in range(300))
        (place / "text.txt").write_text(text + "\n")
        self.log = place / "log.txt"
        small = ["train", "text", f"data.path={place / 'text.txt'}", *SMALL]
        self.train, self.train_pair = ([*small, f"training.steps={steps}"] for steps in (240, 60))
        self.times: dict[str, float] = {}
        self._learn_imports()
        self.whole = self._whole("whole", 1)
        self.pair = self._whole("pair", 2)
        self.page = self._page()

    def _learn_imports(self) -> None:
        """Import what a child has imported by its end, so that no further child has to: that takes most of a start."""
        folder, names = self.place / "first", self.place / "modules.txt"
        for arguments in ([*self.train, "--out", str(folder)], self._explain(folder)):
            assert wait(start(arguments, self.log, modules=names)) == 0, self.said()
            for name in names.read_text().split():
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def _whole(self, name: str, ranks: int) -> dict[str, bytes]:
        began = time.monotonic()
        train = self.train if ranks == 1 else self.train_pair
        assert self._ranks([*train, "--out", str(self.place / name)], ranks) == [0] * ranks, self.said()
        self.times[name] = time.monotonic() - began
        return contents(self.place / name)

    def _page(self) -> dict[str, bytes]:
        folder = self.place / "whole"
        began = time.monotonic()
        assert wait(start(self._explain(folder), self.log)) == 0, self.said()
        self.times["report"] = time.monotonic() - began
        return contents(folder)

    @staticmethod
    def _explain(folder: Path) -> list[str]:
        return ["explain", str(folder), "--table", "the cat"]

    def said(self, most: int = 2000) -> str:
        return self.log.read_text()[-most:] if self.log.exists() else ""

    def lose(self, folder: Path, how: str) -> None:
        """Keep a run that is lost, and what was said, where it can be looked at."""
        kept = self.keep / f"lost-{len(self.tally.lost)}"
        kept.mkdir(parents=True)
        shutil.copytree(folder, kept / folder.name, symlinks=True) if folder.exists() else None
        (kept / "said.txt").write_text(f"{how}\n\n{self.said(10**6)}")
        self.tally.lost.append(f"{kept}: {how}; {self.said()[-500:]}")

    def _ranks(self, arguments: list[str], ranks: int) -> list[int]:
        if ranks == 1:
            return [wait(start(arguments, self.log))]
        return [wait(child) for child in self._start_ranks(arguments, ranks)]

    def _start_ranks(
        self, arguments: list[str], ranks: int, victim: int = -1, how: Callable[[], None] | None = None, **wait: str
    ) -> list[int]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | wait
        return [
            start(
                arguments,
                self.log if k == 1 - victim or victim < 0 else self.place / "victim.txt",
                how if k == victim else None,
                common | {"RANK": str(k), "LOCAL_RANK": str(k)},
            )
            for k in range(ranks)
        ]

    def command(self, folder: Path, ranks: int = 1) -> list[str]:
        """Resume what is there, or start it."""
        if (folder / "recipe.json").exists():
            return ["train", "--resume", str(folder)]
        return [*(self.train if ranks == 1 else self.train_pair), "--out", str(folder)]

    def check(self, folder: Path, expected: dict[str, bytes], how: str) -> None:
        found = contents(folder)
        self.tally.runs += 1
        different = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        if different:
            self.lose(folder, f"{how}: {different} differ")

    def one_run(self, kills: int) -> None:
        """One run that is killed so many times while it starts, trains, saves and resumes."""
        folder = self.place / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        for _ in range(kills):
            chosen = self.draw.random() < 0.6
            moment = "start" if not (folder / "recipe.json").exists() else "training or resume"
            point = 1 + int(
                300 * self.draw.random() ** 3
            )  # early ones more often: else a run is over after a few kills
            child = start(self.command(folder), self.log, partial(kill_at, point) if chosen else None)
            if not chosen:
                time.sleep(0.3 * self.times["whole"] * self.draw.random())
                os.kill(child, signal.SIGKILL)
            code = wait(child)
            if code == -signal.SIGKILL:
                self.tally.kills[f"{moment}, {'a chosen call' if chosen else 'a random time'}"] += 1
            elif code:
                self.lose(folder, f"{moment}: exit {code}")
            else:  # it came to its end before the moment did
                break
        code = wait(start(self.command(folder), self.log))
        if code:
            self.lose(folder, f"the last start: exit {code}")
        else:
            self.check(folder, self.whole, "one rank")

    def one_pair(self, kills: int) -> None:
        """Two ranks, one of which is killed: the other must end by itself, with a line."""
        folder = self.place / "killed-pair"
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(kills):
            self.log.unlink(missing_ok=True)
            victim, chosen = self.draw.randrange(2), self.draw.random() < 0.6
            name = self.draw.choice(list(MEETINGS))
            number, after = self.draw.randint(1, MEETINGS[name]), self.draw.random() < 0.5
            how = partial(kill_at_meeting, name, number, after) if chosen else None
            children = self._start_ranks(self.command(folder, 2), 2, victim, how, **{WAIT: "3"})
            if not chosen:
                time.sleep(self.draw.uniform(0.0, 0.9 * self.times["pair"]))
                os.kill(children[victim], signal.SIGKILL)
            ended = wait(children[victim])
            killed = ended == -signal.SIGKILL
            began = time.monotonic()
            code = wait(children[1 - victim], DEAD)
            self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
            moment = f"rank {victim}, {'after' if after else 'before'} {name} {number}" if chosen else f"rank {victim}"
            self.tally.kills[f"2 ranks, {'a chosen meeting' if chosen else 'a random time'}"] += killed
            lines = self.said().splitlines()
            told = [
                line for line in lines if line.startswith("recurra: ") and f" {folder}: " not in line
            ]  # not remarks
            if code not in (0, 2) or (code == 2 and (len(told) != 1 or lines[-1] != told[0])):
                self.lose(folder, f"2 ranks, {moment}: the other ended with {code} and {len(lines)} lines")
            if not killed and ended not in (0, 2):
                self.lose(folder, f"2 ranks, {moment}: it ended with {ended} before it was killed")
            if not killed:  # both came to their end before the moment did
                break
        self.log.unlink(missing_ok=True)
        if self._ranks(self.command(folder, 2), 2) != [0, 0]:
            self.lose(folder, "2 ranks, the last start")
        else:
            self.check(folder, self.pair, "2 ranks")

    def one_report(self, kills: int) -> None:
        """What is explained is killed, and explained again: the pictures and numbers are those of one that was not."""
        folder = self.place / "killed-report"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.place / "whole", folder)
        shutil.rmtree(folder / "explain")
        self.log.unlink(missing_ok=True)
        for _ in range(kills):
            chosen = self.draw.random() < 0.7
            point = self.draw.randrange(1, 28)  # it makes 24 of them
            child = start(self._explain(folder), self.log, partial(kill_at, point) if chosen else None)
            if not chosen:
                time.sleep(self.draw.uniform(0.0, self.times["report"]))
                os.kill(child, signal.SIGKILL)
            ended = wait(child)
            self.tally.kills["report"] += ended == -signal.SIGKILL
            if ended not in (0, -signal.SIGKILL):
                self.lose(folder, f"report: exit {ended}")
            empty = [file for file in folder.rglob("*") if file.is_file() and not file.stat().st_size]
            empty = [file for file in empty if not file.name.startswith((".writing-", ".lock"))]
            if empty:
                self.lose(folder, f"report: empty files {empty}")
        if wait(start(self._explain(folder), self.log)):
            self.lose(folder, "report: the last start")
        else:
            self.check(folder, self.page, "report")

    def go_on(self, kills: int, ranks: bool = False) -> Tally:
        """Until so many processes were killed: of one rank, of a report, and of two ranks; or these alone."""
        while sum(self.tally.kills.values()) < kills and len(self.tally.lost) < 10:
            if not ranks:
                self.one_run(min(40, kills))
            if not ranks and (kills > 20 or self.tally.runs % 3 == 1):
                self.one_report(6)
            if ranks or kills > 20 or self.tally.runs % 3 == 1:
                self.one_pair(6)
            done = sum(self.tally.kills.values())
            said = f"{done} kills, {self.tally.runs} runs compared, lost: {self.tally.lost}"
            print(said, file=sys.stderr, flush=True)
        return self.tally


def prepare() -> None:
    """Everything that a child needs is imported, and nothing is computed: threads do not live through a fork."""
    torch.set_num_threads(1)

    import recurra.plots
    import recurra.report.contents
    import recurra.tasks.train  # noqa: F401

    _command()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", action="store_true", help="kill one of two ranks, and nothing else")
    parser.add_argument("--keep", type=Path, help="where runs that are lost are kept")
    given = parser.parse_args()
    keep = given.keep or Path(tempfile.mkdtemp(prefix="recurra-lost-"))
    prepare()
    began = time.monotonic()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # no kill depends on how fast the disk is
    with tempfile.TemporaryDirectory(dir=memory) as name:
        made = Campaign(Path(name), keep, given.seed)
        tally = made.go_on(given.kills, given.ranks)
    print(
        f"{sum(tally.kills.values())} kills in {time.monotonic() - began:.0f} s: {dict(tally.kills)}; {tally.runs} runs"
    )
    last = sum("a fault of Recurra's" in line for line in tally.lost)
    print(
        f"the other rank ended within {tally.slowest:.1f} s; lost: {len(tally.lost)}, through the last resort: {last}"
    )
    for line in tally.lost:
        print(line)
    raise SystemExit(bool(tally.lost))
