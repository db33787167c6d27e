"""A campaign: fuzzed files for every reader, values for every setting, and run folders, in processes of their own.

    python -m tests.fuzz.campaign --minutes 10              or --inputs 100000
    python -m tests.fuzz.campaign --repeat 'file a.npz labelled 7 123'

An input is drawn from its seed and number alone, so that one line repeats it. A traceback, a message that is not one short line,
more than 2 GB, or 30 s without progress is a finding; its file and its line are kept under fuzz/. Seconds are those of the clock,
less those in which the process could have run and others had the processor: a busy machine makes no findings, and a wait for a
file is one. What took long and what only the last resort refused is listed too.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

MEMORY = 2 * 2**30
"""Bytes that one input may take, beyond what the process has at its start."""
PATIENCE = 30
"""Seconds that one input may take without progress."""
SLOW = 10
"""Seconds from which on an input is listed, though it is no finding."""
DEEP = 0.12
"""The share of inputs that go through a whole task, which takes longer than reading."""
SETTINGS = 0.25
"""The share of inputs that are settings."""
FOLDERS = 0.05
"""The share of inputs that are run folders."""
LAST_RESORT = "or of another kind"
"""What the door of the readers says of a file where nobody foresaw what went wrong. (Verbs say "a fault of Recurra's"; here, and
wherever run folders are tested, that is a finding.)"""


class TooSlow(BaseException):
    """Not an `Exception`, so that nothing on the way takes it for one of its own."""


class Stopwatch:
    """Seconds since `start` or the last progress, less those that were spent waiting for a processor; raises `TooSlow` when there
    are too many."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, self._look)

    def start(self) -> None:
        self.longest = 0.0
        self._begin()

    def progress(self) -> None:
        self.longest = max(self.longest, self.seconds)
        self._begin()

    def _begin(self) -> None:
        self.began, self.waited = time.monotonic(), _waited()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began - (_waited() - self.waited)

    def stop(self) -> float:
        """The longest time without progress."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        return max(self.longest, self.seconds)

    def _look(self, number: int, frame: Any) -> None:
        left = PATIENCE - self.seconds
        if left <= 0:
            raise TooSlow
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.01))


def _waited() -> float:
    """Seconds in which this thread could have run, and did not; 0 where the system does not count them."""
    file = Path("/proc/thread-self/schedstat")
    return int(file.read_text().split()[1]) / 1e9 if file.exists() else 0.0


def draw_case(seed: int, number: int) -> str:
    """The line that stands for an input: what it is given to, its seed and its number."""
    from tests.fuzz.files import FILES
    from tests.fuzz.targets import READS, targets_for

    draw = random.Random(f"{seed}/{number}")
    if draw.random() < FOLDERS:
        return f"folder\t-\t-\t{seed}\t{number}"
    if draw.random() < SETTINGS:
        return f"settings\t-\t-\t{seed}\t{number}"
    file = draw.choice(list(FILES))
    targets = targets_for(file)
    deep = [name for name in targets if name not in READS]
    likely = LIKELY.get(file, ())
    chosen = deep if deep and draw.random() < DEEP else likely if likely and draw.random() < 0.7 else list(READS)
    return f"file\t{file}\t{draw.choice(list(chosen))}\t{seed}\t{number}"


LIKELY = {
    **dict.fromkeys(
        ("a.txt", "a.txt.gz"), ("text", "byte tokens", "char tokens", "word tokens", "bpe tokens", "to predict")
    ),
    **dict.fromkeys(("reviews.csv", "steps.csv", "a.jsonl", "a.ts"), ("labelled", "to predict", "tags")),
    "a.conll": ("tags",),
    "series.csv": ("series", "timed series"),
    "timed.csv": ("timed series",),
    **dict.fromkeys(("log.csv", "log.csv.gz", "log.xes", "log.xes.gz"), ("log",)),
    **dict.fromkeys(("pairs.tsv", "pairs.csv"), ("pairs",)),
    **dict.fromkeys(
        ("trees.txt", "trees.json", "trees.jsonl", "source.py"), ("trees, every", "trees, root", "trees, outer")
    ),
    "rolls.json": ("rolls",),
    "rolls.mat": ("rolls", "cells of MATLAB"),
    "table.csv": ("table",),
    "classes.tsv": ("classes",),
    "labels.tsv": ("labels of units",),
    **dict.fromkeys(("vectors.txt", "vectors.txt.gz"), ("vectors of words",)),
    "a.npz": ("labelled", "pixels", "images"),
    "images.npy": ("images",),
    **dict.fromkeys(("images-idx3-ubyte", "images-idx3-ubyte.gz"), ("labelled", "pixels", "images")),
}
"""Readers that a file is meant for; the others get it too, less often."""


def run_case(case: str, folder: Path, progress: Callable[[], None] = lambda: None) -> str:
    """Give an input to what it is for: `data`, or the message of the error. `progress` is called when people would see some."""
    from recurra.tasks.settings import LONGEST as LONGER
    from tests.fuzz import folders
    from tests.fuzz.files import FILES
    from tests.fuzz.mutations import mutate
    from tests.fuzz.settings import assign
    from tests.fuzz.targets import outcome, targets_for

    what, file, target, seed, number = case.split("\t")
    draw = random.Random(f"{seed}/{number}/input")
    with outcome(LONGER) if what == "settings" else outcome() as said:
        if what == "settings":
            assign(draw, progress)
        elif what == "folder":
            folders.use(draw, folder)
        else:
            path = folder / file
            path.write_bytes(mutate(draw, file, FILES[file](draw)))
            targets_for(file)[target](path)
    return said[0] if said else "data"


class Judge:
    """Counts what came of inputs, and says of each what is wrong with it, if anything is.

    - `kinds`: how many were read (`data`), refused by a line that somebody foresaw, or by the `last resort`.
    """

    def __init__(self) -> None:
        self.watch, self.kinds, self.slowest, self.largest = Stopwatch(), Counter[str](), 0.0, 0

    def look(self, give: Callable[[Callable[[], None]], str]) -> dict[str, Any]:
        """What is found of an input that `give` hands over: `found`, `slow` and `last resort`, each where there is one."""
        before, row = _peak(), dict[str, Any]()
        self.watch.start()
        try:
            said = give(self.watch.progress)
            if "more memory than there is" in said:
                row["found"] = f"over {MEMORY} bytes"
            kind = "data" if said == "data" else "last resort" if LAST_RESORT in said else "refused"
            self.kinds[kind] += 1
            if kind == "last resort":
                row[kind] = said
        except TooSlow:
            row["found"] = f"over {PATIENCE} s"
        except Exception:
            row["found"] = traceback.format_exc()
        finally:
            taken = self.watch.stop()
        grown = _peak() - before
        self.slowest, self.largest = max(self.slowest, taken), max(self.largest, grown)
        if grown > MEMORY:
            row["found"] = f"{grown} bytes"
        if taken > SLOW:
            row["slow"] = f"{taken:.1f} s"
        return row


def work(seed: int, first: int, step: int, until: float, inputs: int, keep: Path) -> None:
    """One process: every `step`th input from `first` on. Prints a line of JSON for each finding, and one at the end."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    judge, counts, number = Judge(), Counter[str](), first
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        folder = Path(place)
        while time.time() < until and number < inputs:
            case = draw_case(seed, number)
            if number == first + step * 200:  # everything is imported: from here on, memory is that of inputs
                limit_memory()
            row = judge.look(partial(run_case, case, folder))
            file = case.split("\t")[1 if case.startswith("file") else 0]
            counts[case.split("\t")[2] if case.startswith("file") else file] += 1
            if row:
                print(json.dumps({"case": case, **row}), flush=True)
                if (folder / file).is_file():
                    (keep / f"{seed}-{number}-{file}").write_bytes((folder / file).read_bytes())
            number += step
    print(
        json.dumps({"counts": counts, "kinds": judge.kinds, "slowest": judge.slowest, "largest": judge.largest}),
        flush=True,
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory() -> None:
    """Refuse what would go far beyond what is allowed, before the machine suffers."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY + 2**30, resource.RLIM_INFINITY))


def campaign(minutes: float, inputs: int, workers: int, seed: int, keep: Path) -> int:
    """Run the workers, add up what they found, and print it; the number of findings."""
    keep.mkdir(parents=True, exist_ok=True)
    until = time.time() + 60 * minutes
    began = time.monotonic()
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.fuzz.campaign",
                "--worker",
                f"{seed},{k},{workers},{until},{inputs}",
                "--keep",
                keep,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(workers)
    ]
    told, counts, kinds, ends = [], Counter[str](), Counter[str](), []
    for process in started:
        output, _ = process.communicate()
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        told += [row for row in rows if "case" in row]
        ends += [row for row in rows if "counts" in row]
        if process.returncode:
            told.append({"case": "a worker", "found": f"ended with code {process.returncode}"})
    for end in ends:
        counts.update(end["counts"])
        kinds.update(end["kinds"])
    for row in told:
        print("\n".join(row.values()), flush=True)
    findings = [row for row in told if "found" in row]
    with (keep / "findings.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in findings)
    print(
        f"{sum(counts.values()):,} inputs (seed {seed}) in {time.monotonic() - began:.0f} s by {workers} processes: "
        f"{kinds['data']:,} read, {kinds['refused']:,} refused, {kinds['last resort']:,} refused by the last resort, "
        f"{len(findings):,} findings; slowest {max((end['slowest'] for end in ends), default=0):.1f} s, "
        f"most memory for one {max((end['largest'] for end in ends), default=0) / 2**20:.0f} MiB"
    )
    print(", ".join(f"{name} {count:,}" for name, count in counts.most_common()))
    return len(findings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--inputs", type=int, default=2**62)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path("fuzz"))
    parser.add_argument("--repeat", help="a line of a finding, with tabs or spaces")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        seed, first, step, until, inputs = given.worker.split(",")
        work(int(seed), int(first), int(step), float(until), int(inputs), given.keep)
    elif given.repeat is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(run_case(given.repeat.replace("\\t", "\t"), Path(folder)))
    else:
        sys.exit(1 if campaign(given.minutes, given.inputs, given.workers, given.seed, given.keep) else 0)


if __name__ == "__main__":
    main()
