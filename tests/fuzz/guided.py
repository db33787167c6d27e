"""Fuzzing that is guided by coverage: bytes that reach new lines of Recurra are kept, and changed further.

    pip install atheris && python -m tests.fuzz.guided --minutes 10
    python -m tests.fuzz.guided --repeat fuzz/guided-1

Readers and settings, through the targets and the judge of the campaign. The first two bytes of an input say what it is given to;
the rest is a file, or what settings are drawn from instead of from a random generator. Inputs that reached something new are kept
under fuzz/corpus, where the next search goes on.
"""

import argparse
import contextlib
import importlib
import io
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import Judge, limit_memory

IMPORTING = 500
"""Inputs after which everything is imported: from there on, memory is that of inputs."""


class Fed(random.Random):
    """Draws what bytes say, and zeros when they are used up: who changes the bytes, changes the draws."""

    def __init__(self, data: bytes):
        super().__init__(0)
        self.data = data

    def getrandbits(self, k: int) -> int:
        size = -(-k // 8)
        taken, self.data = self.data[:size], self.data[size:]
        return int.from_bytes(taken.ljust(size, b"\0"), "big") >> (8 * size - k)

    def random(self) -> float:
        return self.getrandbits(16) / 2**16


@cache
def ways() -> list[tuple[str, str]]:
    """What an input can be given to: settings, or a file of a name to a reader, which is one that it is meant for or any."""
    from tests.fuzz.campaign import LIKELY
    from tests.fuzz.files import FILES
    from tests.fuzz.targets import targets_for

    return [("settings", "")] + [
        (file, target) for file in FILES for target in dict.fromkeys((*LIKELY[file], *targets_for(file)))
    ]


def seeds() -> list[bytes]:
    """Inputs to begin with: a sound file for each way, and settings at random."""
    from tests.fuzz.files import FILES

    made = []
    for k, (file, _) in enumerate(ways()):
        for seed in range(40 if file == "settings" else 2):
            draw = random.Random(f"{k}/{seed}")
            made.append(k.to_bytes(2, "big") + (draw.randbytes(60) if file == "settings" else FILES[file](draw)))
    return made


def way(data: bytes) -> tuple[str, str]:
    chosen = ways()
    return chosen[int.from_bytes(data[:2], "big") % len(chosen)]


def give(data: bytes, folder: Path, progress: Callable[[], None] = lambda: None) -> str:
    """Give an input to what it is for: `data`, or the message of the error."""
    from recurra.tasks.settings import LONGEST as LONGER
    from tests.fuzz.settings import assign
    from tests.fuzz.targets import outcome, targets_for

    file, target = way(data)
    with outcome(LONGER) if file == "settings" else outcome() as said:
        if file == "settings":
            assign(Fed(data[2:]), progress)
        else:
            (folder / file).write_bytes(data[2:])
            targets_for(file)[target](folder / file)
    return said[0] if said else "data"


def change(data: bytes, most: int, seed: int, further: Callable[[bytes, int], bytes]) -> bytes:
    """Another input: half of them by damage that knows what it damages, as in the campaign."""
    from tests.fuzz.mutations import mutate

    draw, (file, _) = random.Random(seed), way(data)
    if file != "settings" and draw.random() < 0.5:
        with contextlib.suppress(Exception):  # an archive that is damaged already cannot be taken apart
            return (data[:2] + mutate(draw, file, data[2:]))[:most]
    return further(data, most)


class Session:
    """Looks at every input that atheris makes. One that is a finding, or reached the last resort, is kept and told, once for each
    place in the code or message, and the search goes on until its time is over."""

    def __init__(self, folder: Path, keep: Path, until: float):
        self.folder, self.keep, self.until, self.judge = folder, keep, until, Judge()
        self.count, self.told = 0, dict[str, bool]()

    def look(self, data: bytes) -> None:
        if time.time() > self.until:
            self.end()
        self.count += 1
        if self.count == IMPORTING:
            limit_memory()
        row = self.judge.look(partial(give, data, self.folder))
        found = row.get("found") or row.get("last resort")
        if found is None:
            return
        place = found.rpartition('  File "' if "found" in row else "(")[2]
        if place not in self.told:
            self.told[place] = "found" in row
            file = self.keep / f"guided-{len(self.told)}"
            file.write_bytes(data)
            print(f"python -m tests.fuzz.guided --repeat {file}\n{found}", flush=True)

    def end(self) -> None:
        """Tell the counts, and end the process: libFuzzer would do so without a word."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.judge.kinds.items())
        print(
            f"{self.count:,} inputs: {kinds}; {sum(self.told.values())} findings; slowest {self.judge.slowest:.1f} s, "
            f"most memory for one {self.judge.largest / 2**20:.0f} MiB",
            flush=True,
        )
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(any(self.told.values()))


def search(atheris: Any, minutes: float, seed: int, keep: Path) -> None:
    """Does not return."""
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["recurra"]):
        from tests.fuzz import settings, targets  # noqa: F401  what they import is watched
    warnings.simplefilter("ignore")
    corpus = keep / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for k, data in enumerate(seeds()):
        (corpus / f"seed-{k}").write_bytes(data)
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    session = Session(folder, keep, time.time() + 60 * minutes)
    # time and memory are the judge's, who needs the alarm for himself
    own = [
        "-timeout=0",
        "-rss_limit_mb=0",
        "-report_slow_units=1000",
        "-max_len=20000",
        "-verbosity=0",
        f"-seed={seed}",
    ]
    arguments = [sys.argv[0], str(corpus), *own]
    atheris.Setup(
        arguments, session.look, custom_mutator=partial(change, further=lambda data, most: atheris.Mutate(data, most))
    )
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz"))
    parser.add_argument("--repeat", type=Path, help="the file of a finding")
    given = parser.parse_args()
    if given.repeat is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(give(given.repeat.read_bytes(), Path(folder)))
        return
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print("skipped: fuzzing that is guided by coverage needs atheris. Install it with: pip install atheris")
        return
    search(atheris, given.minutes, given.seed, given.keep)


if __name__ == "__main__":
    main()
